//! Rules that are exchanged while alerts stand.
