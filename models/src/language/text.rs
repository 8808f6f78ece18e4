//! Tokens → text to show: whole characters only, no lost space, never a part of a stop string.
