//! What files of rules may hold.

use std::time::Duration;

/// Bytes of one file.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Files that are read, each as often as it is included.
pub const FILES_MAX: usize = 64;
/// Files that include each other, one within the other.
pub const INCLUDE_DEPTH_MAX: usize = 8;
/// Consecutive evaluations that a rule may require: one day of them.
pub const EVALUATIONS_MAX: u32 = 86_400;
/// Receivers that one rule may name.
pub const ROUTES_MAX: usize = 16;
/// Bytes of a rule's runbook link.
pub const RUNBOOK_BYTES_MAX: usize = 1_024;
/// Bytes of a rule's summary.
pub const SUMMARY_BYTES_MAX: usize = 256;
/// Bytes that the names of an error budget's rules add to the budget's own: `_burn_1h`.
pub const BURN_SUFFIX_BYTES: usize = 8;
/// By how much windows may be shortened: the longest to the shortest.
pub const TIME_SCALE_MAX: u32 = 259_200;
/// Time in which samples arrive and none matches a budget before the budget counts as unmatched.
pub const UNMATCHED_AFTER: Duration = Duration::from_secs(300);
/// Time between two checks whether a rule file has changed.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Budgets of one operation above which an advice states their cost.
pub const BUDGETS_OF_ONE_ADVISED_MAX: usize = 32;
/// Distinct limits of one operation's budgets for which samples over them are summed as they
/// come, as many as nodes count; for a further one they are counted from the buckets, once a
/// second. Each takes 8 bytes of every slot.
pub const LIMITS_SUMMED_MAX: usize = super::wire::LIMITS_MAX;
/// Budgets in all files together.
pub const BUDGETS_MAX: usize = 256;
/// Thresholds in all files together.
pub const RULES_MAX: usize = 256;
/// Rules about stragglers in all files together: some for each kind of job.
pub const STRAGGLERS_MAX: usize = 16;
/// Labels that divide peers into cohorts, as many as a roll-up has.
pub const COHORT_LABELS_MAX: usize = 4;
/// Classes of time of one rule about stragglers: those of the clients, and one of a site's own.
pub const CLASSES_MAX: usize = 6;
/// Bytes of a pattern: those of the longest name.
pub const PATTERN_BYTES_MAX: usize = super::wire::OPERATION_BYTES_MAX;
