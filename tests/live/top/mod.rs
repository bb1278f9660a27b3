//! `plimsoll top` as an operator sees it: in a terminal of 80 columns and 24 lines, that of tmux.

mod frozen;
mod screen;
mod tmux;
