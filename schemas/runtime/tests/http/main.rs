//! The HTTP server on real sockets, under slow and hostile clients of HTTP/1 and HTTP/2.

mod slow_clients;
mod streams;
