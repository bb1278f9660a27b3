//! Runs over HTTP on a whole driver without a history: begun, stopped and listed, with the token.

use plimsoll_schemas::summary::{RunPage, RunRow, RunState, RunsPage};

use super::alerts::{SECRET, firing_with, json, send};

const BEGIN: &str = r#"{"name":"train-v41","labels":{"rank":"0"},"by":"ann"}"#;

#[tokio::test]
async fn runs_are_begun_stopped_and_listed_over_http() {
    let mut driver = firing_with(Some(SECRET), None).await;
    let bearer = format!("Bearer {SECRET}");
    let bearer = bearer.as_str();
    let answers = send(
        &mut driver,
        &[
            ("GET /api/v1/runs/last", "", ""),
            ("POST /api/v1/runs", bearer, BEGIN),
            ("POST /api/v1/runs", bearer, BEGIN),
            ("POST /api/v1/runs", bearer, r#"{"name":"train-v42"}"#),
            ("POST /api/v1/runs/train-v41/stop", bearer, r#"{"exit_code":3}"#),
            ("POST /api/v1/runs/train-v41/stop", bearer, r#"{"exit_code":0}"#),
            ("POST /api/v1/runs/train-v43/stop", bearer, ""),
            ("GET /api/v1/runs", "", ""),
            ("GET /api/v1/runs?state=running", "", ""),
            ("GET /api/v1/runs/last", "", ""),
            ("GET /api/v1/runs/train-v41", "", ""),
        ],
    )
    .await;
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    let expected = [404, 201, 409, 201, 200, 200, 404, 200, 200, 200, 200];
    assert_eq!(statuses, expected, "{answers:?}");
    assert!(answers[0].1.contains("no runs yet"), "{}", answers[0].1);
    let begun: RunRow = json(&answers[1].1);
    assert_eq!((begun.state, begun.by.as_deref()), (RunState::Running, Some("ann")));
    assert!(answers[2].1.contains("choose another name"), "{}", answers[2].1);
    for answer in &answers[4..6] {
        let ended: RunPage = json(&answer.1);
        assert_eq!((ended.run.state, ended.run.exit_code), (RunState::Ended, Some(3)));
        assert!(ended.no_history.unwrap().starts_with("no history is kept"));
    }
    assert!(answers[6].1.contains("; similar: \"train-v4"), "{}", answers[6].1);
    let names = |answer: &str| -> Vec<String> {
        json::<RunsPage>(answer).runs.iter().map(|run| run.name.to_string()).collect()
    };
    assert_eq!(names(&answers[7].1), ["train-v42", "train-v41"]);
    assert_eq!(names(&answers[8].1), ["train-v42"]);
    assert_eq!(json::<RunPage>(&answers[9].1).run.name.as_str(), "train-v42");
    let page: RunPage = json(&answers[10].1);
    assert_eq!((page.run.exit_code, page.operations.len()), (Some(3), 0));
    assert!(page.no_history.unwrap().starts_with("no history is kept"));
}

#[tokio::test]
async fn reading_runs_needs_no_token_and_changing_them_does() {
    let mut driver = firing_with(Some(SECRET), None).await;
    let requests = [
        ("POST /api/v1/runs", "", BEGIN),
        ("POST /api/v1/runs/a/stop", "Bearer 0123456789abcdeg", ""),
        ("GET /api/v1/runs", "", ""),
        ("GET /api/v1/runs?from=1", "", ""),
        ("GET /api/v1/runs/train-v41?x=1", "", ""),
        ("GET /api/v1/runs/compare?a=a", "", ""),
        ("GET /api/v1/runs/compare?a=a&b=b", "", ""),
    ];
    let answers = send(&mut driver, &requests).await;
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [401, 401, 200, 400, 400, 400, 404], "{answers:?}");
    assert!(json::<RunsPage>(&answers[2].1).runs.is_empty());
    assert!(answers[6].1.contains("no history is kept"), "{}", answers[6].1);
    let mut without = firing_with(None, None).await;
    let refused = send(&mut without, &[("POST /api/v1/runs", "", BEGIN)]).await;
    assert_eq!(refused[0].0, 403, "{refused:?}");
}
