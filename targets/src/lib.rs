//! Where does a graph run, and did it really run there?
