//! Tests of the room on its own interface.
