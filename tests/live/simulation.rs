//! Some fault schedules of the simulation on the real cores, in a build without optimisation. None
//! may break an invariant, and the trace of a seed is the same in each run.

use std::time::Duration;

use plimsoll_tests::program::{ProgramOutput, program, run};
use serde_json::Value;

const WAIT: Duration = Duration::from_secs(400);

async fn drill_sim(flags: &[&str]) -> ProgramOutput {
    let mut command = program("drill-sim").unwrap();
    command.args(flags);
    run(command, WAIT).await.unwrap()
}

#[tokio::test]
async fn fault_schedules_leave_the_ledger_exact() {
    let outcome = drill_sim(&["--seeds", "60", "--json"]).await;
    let report: Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    assert_eq!(report["failure"], Value::Null, "{}", outcome.stderr);
    assert_eq!((outcome.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    let samples = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(samples("runs"), 60);
    assert_eq!((samples("duplicated"), samples("unexplained")), (0, 0));
    assert_eq!(samples("recorded"), samples("merged") + samples("lost"));
    assert!(samples("merged") > 10_000, "{report}");
}

#[tokio::test]
async fn a_seed_replays_the_same_way_each_time() {
    let [first, second] = [
        drill_sim(&["--seed", "7", "--trace"]).await,
        drill_sim(&["--seed", "7", "--trace"]).await,
    ];
    assert_eq!(first.code, Some(0), "{}", first.stdout);
    assert_eq!(first.stdout, second.stdout);
    for words in ["step 0: ", "all faults end", "aggregator: confirms to n0 ", "ended at"] {
        assert!(first.stdout.contains(words), "{words:?} is missing");
    }
}
