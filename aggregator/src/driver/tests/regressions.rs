//! A regression on a whole driver, from the history file and a baseline to an alert.

use plimsoll_schemas::alert::AlertState;

use super::*;
use crate::io::baselines::tests::{good_rule, history_until};

/// Slots of half an hour, and some more for the time that a start takes.
const SLOTS: u64 = 200;

#[tokio::test]
async fn a_fleet_that_is_slower_than_its_baseline_fires_a_rule() {
    let dir = tempfile::tempdir().unwrap();
    let rule = good_rule(&dir);
    drop(history_until(&dir, Clock::start().now().wall, SLOTS, 1.2));
    let mut config = Config::default();
    config.http.address = "127.0.0.1:0".parse().unwrap();
    config.bus.url = "nats://127.0.0.1:1".to_owned();
    config.state.path = Some(dir.path().join("state.redb"));
    config.history.path = Some(dir.path().join("history.redb"));
    let sources = Sources::new(SettingsArgs::default(), []);
    let watch =
        Watch::start(sources, config.clone(), Stamps::new(), &Supervisor::default()).unwrap();
    let rules = Rules { thresholds: vec![rule], time_scale: 1, ..Rules::default() };
    let Ok(mut driver) = Driver::start(&config, rules, watch, Supervisor::default(), None).await
    else {
        panic!("a driver")
    };
    Lane::ALL.into_iter().for_each(|lane| driver.core.on_positioned(lane, 0, 0, "s1"));
    let fires = |driver: &Driver| {
        let page = driver.core.alerts_page(driver.clock.now().wall, &Default::default());
        let mut firing = page.alerts.iter().filter(|row| row.state == AlertState::Firing);
        firing.any(|row| row.key.to_string() == "slower (fleet, regression:fetch)")
    };
    turns_until(&mut driver, fires).await;
}
