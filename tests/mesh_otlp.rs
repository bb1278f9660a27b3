//! What comes as OTLP, at the aggregator: the official SDK of OpenTelemetry in all its ways, and
//! what becomes of it while a node leaves or is attacked.

#[path = "mesh_otlp/hostile.rs"]
mod hostile;
#[path = "mesh_otlp/leaving.rs"]
mod leaving;
#[path = "mesh_otlp/producer.rs"]
mod producer;
#[path = "mesh_otlp/sdk.rs"]
mod sdk;
