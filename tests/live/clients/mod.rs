//! Every client library that jobs use delivers its samples, compared with the values that it was
//! given, at the aggregator.

mod nc;
mod python;
mod rust;
