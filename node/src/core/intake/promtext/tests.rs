//! Whole pages, and what is made of them.
