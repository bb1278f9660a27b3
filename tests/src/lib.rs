//! Nothing but a place for the tests beside it: end-to-end runs on real parts, golden wire
//! bytes, and `tidy`, which holds the whole tree against the house rules.
