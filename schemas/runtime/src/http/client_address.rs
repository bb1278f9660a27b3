//! Who a request is of.

use std::net::IpAddr;

/// The address of the client that a request is of; each request has it as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientAddress(pub IpAddr);
