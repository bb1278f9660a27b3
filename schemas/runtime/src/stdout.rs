//! What a program prints for people and scripts. A reader that has read enough, like `head`, closes
//! the pipe: that is no failure, and `print!` would panic.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::exit;

use crate::exit::Exit;

/// Prints a text to standard output; after its reader has closed it, nothing. Ends the process if
/// it cannot be written for another reason.
pub fn print(text: impl Display) {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let _closed = writeln!(io::stderr(), "standard output cannot be written: {error}");
            exit(Exit::Failure as i32)
        }
        _ => {}
    }
}

/// The same with the end of a line.
pub fn print_line(text: impl Display) {
    print(format_args!("{text}\n"));
}
