//! Every client library that jobs use delivers its samples: the values at the aggregator equal the
//! values passed to the library.

mod alerted;
mod labelled;
mod nc;
mod python;
mod rust;

pub(crate) use python::python;
