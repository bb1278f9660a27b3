//! scratch
pub mod alert;
pub mod judge;
pub mod ledger;
pub mod seqs;
pub mod window;
