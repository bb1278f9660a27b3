//! Messages as a reader receives them: what was encoded is decoded, every bound holds, and hostile
//! bytes are refused.

mod events;
mod shard;
mod snapshots;
mod wide_buckets;
