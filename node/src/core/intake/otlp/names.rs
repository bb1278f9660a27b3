//! Turns names of OpenTelemetry into names of this mesh.

use plimsoll_schemas::ids::Operation;

use crate::core::intake::reject::Reject;

/// A metric's or span's name as an operation: invalid characters become `_`.
pub(super) fn to_operation(name: &str) -> Result<Operation, Reject> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
    let valid: String = name.chars().map(|c| if is_valid(c) { c } else { '_' }).collect();
    Operation::new(valid).map_err(|_| Reject::Name)
}

/// An attribute's key as a label's: everything except letters and digits becomes `_`.
pub(super) fn to_label_key(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
