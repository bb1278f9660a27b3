//! Drills that proved nothing: they wrote around the bus and always ended with 0.

use std::time::Duration;

use plimsoll_tests::outcome::{Swept, program, run};

/// A drill that has no broker to disturb has nothing to tell, and must not pass.
#[tokio::test]
async fn a_drill_without_a_bus_never_passes() {
    for drill in ["drill-latency", "drill-hardware", "drill-backpressure", "drill-faults"] {
        let place = Swept::new().unwrap();
        let mut command = program(drill).unwrap();
        command.arg("--dir").arg(place.path());
        command.env("PLIMSOLL_NATS_SERVER", place.path().join("nats-server"));
        let ended = run(command, Duration::from_secs(60)).await.unwrap();
        assert_ne!(ended.code, Some(0), "{drill}: {ended:?}");
        assert!(ended.stderr.contains("nats-server"), "{drill}: {ended:?}");
    }
}
