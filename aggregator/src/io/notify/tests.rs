//! Receivers that are down, slow, endless or talk garbage, and one that is asked over TLS.
