//! Alerts over HTTP on a whole driver: listed, silenced and acknowledged, with the token.

use std::net::SocketAddr;
use std::path::PathBuf;

use plimsoll_schemas::alert::{AlertsPage, SilencesPage};
use plimsoll_schemas::rule::file::effective;
use serde_json::Value;

use super::*;
use crate::core::tests::{MS, Speaker, deliver};
use crate::io::rules::Found;
use crate::limits::REMOVAL_ANNOUNCED;

pub(super) const SECRET: &str = "0123456789abcdef";

/// A driver without a broker, which thinks that it has read everything, and in which one alert
/// about node `a` fires, and one about the fleet.
async fn firing(token: Option<&str>) -> Driver {
    firing_with(token, None).await
}

/// The same, with a file of settings that name receivers.
pub(super) async fn firing_with(token: Option<&str>, config: Option<PathBuf>) -> Driver {
    let mut set = vec!["http.address=127.0.0.1:0".to_owned(), "bus.url=nats://127.0.0.1:1".into()];
    set.extend(token.map(|token| format!("http.token={token}")));
    let arguments = SettingsArgs { set, config, ..SettingsArgs::default() };
    let config = arguments.load::<Config>("PLIMSOLL_TEST_NONE_", &[]).unwrap().value;
    let sources = Sources::new(SettingsArgs::default(), []);
    let watch =
        Watch::start(sources, config.clone(), Stamps::new(), &Supervisor::default()).unwrap();
    let budget = "[[budget]]\nname = 'epoch_hook'\nwindow = '5m'\nfire_after = 1";
    let rules = Rules::from(effective(&[budget]).unwrap());
    let Ok(mut driver) = Driver::start(&config, rules, watch, Supervisor::default(), None).await
    else {
        panic!("a driver")
    };
    for lane in Lane::ALL {
        driver.core.on_positioned(lane, 0, 0, "s1");
    }
    let now = driver.clock.now();
    deliver(&mut driver.core, now, &Speaker::new("a").send(now, 30 * MS, 200));
    let fires = |driver: &Driver| {
        let page = driver.core.alerts_page(driver.clock.now().wall, &Default::default());
        page.alerts.len() == 2
    };
    turns_until(&mut driver, fires).await;
    driver
}

/// Sends requests one after the other, while the driver has its turns; returns status and the rest
/// of each answer.
pub(super) async fn send(
    driver: &mut Driver,
    requests: &[(&str, &str, &str)],
) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    for (line, token, body) in requests {
        let address = driver.server.address();
        let requesting =
            tokio::spawn(request(address, [line, token, body].map(ToString::to_string)));
        turns_until(driver, |_| requesting.is_finished()).await;
        let answer = requesting.await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        answers.push((status, answer));
    }
    answers
}

async fn request(address: SocketAddr, [line, token, body]: [String; 3]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let shown =
        if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{shown}\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

pub(super) fn json<T: serde::de::DeserializeOwned>(answer: &str) -> T {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

const SILENCE: &str = r#"{"match":{"node":"a"},"by":"ann","comment":"disks","for":"1h"}"#;
pub(super) const ACKNOWLEDGE: &str =
    r#"{"rule":"epoch_hook","operation":"epoch_hook","by":"bob","for":"1h"}"#;

#[tokio::test]
async fn alerts_are_listed_silenced_and_acknowledged_over_http() {
    let mut driver = firing(Some(SECRET)).await;
    let bearer = format!("Bearer {SECRET}");
    let bearer = bearer.as_str();
    let answers = send(
        &mut driver,
        &[
            ("POST /api/v1/silences", bearer, SILENCE),
            ("POST /api/v1/alerts/acknowledge", bearer, ACKNOWLEDGE),
            ("GET /api/v1/alerts?state=firing", "", ""),
            ("GET /api/v1/alerts?node=a", "", ""),
            ("GET /api/v1/silences", "", ""),
            ("DELETE /api/v1/silences/1", bearer, ""),
            ("DELETE /api/v1/silences/1", bearer, ""),
            ("DELETE /api/v1/alerts/acknowledge?rule=epoch_hook&operation=epoch_hook", bearer, ""),
            ("GET /api/v1/alerts", "", ""),
        ],
    )
    .await;
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [201, 201, 200, 200, 200, 204, 404, 204, 200], "{answers:?}");
    assert_eq!(json::<Value>(&answers[0].1)["id"], 1);
    let page: AlertsPage = json(&answers[2].1);
    let sent = page.alerts.iter().map(|row| {
        let by = row.acknowledged.as_ref().map(|of| of.by.as_str());
        (row.key.scope.node(), by, row.silenced_by.as_slice())
    });
    assert_eq!(sent.collect::<Vec<_>>(), [("", Some("bob"), &[][..]), ("a", None, &[1])]);
    assert_eq!(json::<AlertsPage>(&answers[3].1).alerts.len(), 1);
    let silences: SilencesPage = json(&answers[4].1);
    assert_eq!((silences.silences.len(), silences.silences[0].silence.by.as_str()), (1, "ann"));
    let page: AlertsPage = json(&answers[8].1);
    let free = |row: &plimsoll_schemas::alert::AlertRow| {
        row.acknowledged.is_none() && row.silenced_by.is_empty()
    };
    assert!(page.alerts.iter().all(free), "{page:?}");
    // The Python client reads alerts one by one, and what the page states of itself before them.
    let (head, _) = answers[8].1.split_once(r#""alerts":[{"#).unwrap();
    assert!(head.contains(r#""at_seconds":"#) && head.contains(r#""ready":"#), "{head}");
}

#[tokio::test]
async fn changes_without_the_token_are_rejected() {
    let mut driver = firing(Some(SECRET)).await;
    let changes = [
        ("POST /api/v1/silences", SILENCE),
        ("DELETE /api/v1/silences/1", ""),
        ("POST /api/v1/alerts/acknowledge", ACKNOWLEDGE),
        ("DELETE /api/v1/alerts/acknowledge?rule=epoch_hook&operation=epoch_hook", ""),
    ];
    let wrong = ["", "Bearer", "Bearer ", "Bearer 0123456789abcdeF", "Basic 0123456789abcdef"];
    for (line, body) in changes {
        let requests = wrong.map(|token| (line, token, body));
        for (status, answer) in send(&mut driver, &requests).await {
            assert_eq!(status, 401, "{answer}");
            assert!(answer.contains("www-authenticate: Bearer realm=\"plimsoll\""), "{answer}");
            assert!(!answer.contains(SECRET), "{answer}");
        }
    }
    assert!(driver.core.silences_page().silences.is_empty());
    let mut driver = firing(None).await;
    let bearer = format!("Bearer {SECRET}");
    for (line, body) in changes {
        let (status, answer) = send(&mut driver, &[(line, &bearer, body)]).await.remove(0);
        assert_eq!(status, 403);
        assert!(answer.contains("set http.token_file"), "{answer}");
    }
}

#[tokio::test]
async fn bad_input_is_rejected_with_the_key_at_fault() {
    let mut driver = firing(Some(SECRET)).await;
    let bearer = format!("Bearer {SECRET}");
    let long = "x".repeat(70_000);
    let absent = ACKNOWLEDGE.replace("\"epoch_hook\",\"by", "\"publish\",\"by");
    let table = [
        ("GET /api/v1/alerts?state=wrong", "", 400, "state is \"wrong\""),
        ("POST /api/v1/silences", "{}", 400, "missing field `match`"),
        (
            "POST /api/v1/silences",
            r#"{"match":{},"by":"a","for":"1h"}"#,
            400,
            "match matches every alert",
        ),
        (
            "POST /api/v1/silences",
            r#"{"match":{"rule":"*"},"by":"a","for":"1h"}"#,
            400,
            "match matches",
        ),
        (
            "POST /api/v1/silences",
            r#"{"match":{"rule":"r"},"by":"a\n","for":"1h"}"#,
            400,
            "by contains a",
        ),
        (
            "POST /api/v1/silences",
            r#"{"match":{"rule":"r"},"by":"a","for":"60d"}"#,
            400,
            "more than 30 days",
        ),
        ("POST /api/v1/silences", long.as_str(), 413, ""),
        ("DELETE /api/v1/silences/x", "", 400, "id is \"x\""),
        ("POST /api/v1/alerts/acknowledge", absent.as_str(), 409, "is inactive"),
        ("DELETE /api/v1/alerts/acknowledge?rule=r", "", 400, "operation is missing"),
        (
            "DELETE /api/v1/alerts/acknowledge?rule=epoch_hook&operation=epoch_hook",
            "",
            404,
            "is not acknowledged",
        ),
    ];
    for (line, body, wanted, part) in table {
        let (status, answer) = send(&mut driver, &[(line, &bearer, body)]).await.remove(0);
        assert_eq!(status, wanted, "{line} {answer}");
        assert!(answer.contains(part), "{line}: {answer}");
    }
}

#[tokio::test]
async fn rules_that_would_end_firing_alerts_are_held_unless_a_signal_asked() {
    let none = Rules::from(Vec::new());
    let found = |rules: &Rules, requested| Found {
        requested,
        rules: Ok(rules.clone()),
        rollups: Vec::new(),
        advice: Vec::new(),
        restart: Vec::new(),
    };
    let fires = |driver: &Driver| !driver.core.firing_without(&none).is_empty();
    let mut driver = firing(None).await;
    let (now, same) = (driver.clock.now(), driver.core.rules().clone());
    let soon = now.after(REMOVAL_ANNOUNCED - Duration::from_nanos(1));

    driver.rules.on_found(&mut driver.core, now, found(&none, false));
    driver.rules.on_deadline(&mut driver.core, soon);
    assert!(fires(&driver) && driver.rules.deadline() == Some(now.mono.plus(REMOVAL_ANNOUNCED)));
    // The writer has gone on, and the file has them again.
    driver.rules.on_found(&mut driver.core, soon, found(&same, false));
    driver.rules.on_deadline(&mut driver.core, soon.after(REMOVAL_ANNOUNCED));
    assert!(fires(&driver) && driver.rules.deadline().is_none());

    driver.rules.on_found(&mut driver.core, now, found(&none, false));
    driver.rules.on_deadline(&mut driver.core, now.after(REMOVAL_ANNOUNCED));
    assert!(!fires(&driver));

    let mut driver = firing(None).await;
    driver.rules.on_found(&mut driver.core, now, found(&none, true));
    assert!(!fires(&driver));
}
