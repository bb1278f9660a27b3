//! OTLP from a producer to the aggregator: every mode of the official OpenTelemetry SDK, an exit of
//! the node under load, and attacks.

mod hostile;
mod leaving;
mod producer;
mod sdk;
