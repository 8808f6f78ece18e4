//! Replies: when each prompt chunk and decode step runs, for how long, and when it stops.
