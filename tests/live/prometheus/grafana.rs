//! The Grafana dashboards on a mesh that has something to show in every panel: machines of files,
//! GPUs of a stub, an application that is scraped, a receiver, and faults. `python/grafana.py` runs
//! the queries.
//!
//! DESIGN A140.

#[path = "../../nvml_stub/library.rs"]
mod library;
#[path = "../../../node/tests/trees/unpack.rs"]
mod unpack;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_bus::UnacknowledgedMessage;
use plimsoll_mesh::child::free_port;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::program::run;
use plimsoll_tests::publisher::Publisher;
use plimsoll_tests::statsd::StatsdSender;
use plimsoll_tests::webhook::WebhookReceiver;

use super::scraped;
use crate::clients::python;
use crate::scrape::App;

/// Recorded machines: between them and this one they have every sensor.
const MACHINES: [(&str, &str); 2] = [
    ("node-2", include_str!("../../../node/tests/trees/server.txt")),
    ("node-3", include_str!("../../../node/tests/trees/container.txt")),
];
const CHECK_WAIT: Duration = Duration::from_secs(150);

/// What the mesh has around it.
struct Surroundings {
    app: App,
    _receiver: WebhookReceiver,
}

/// Options of the mesh, and what is around it.
async fn surrounded(dir: &Path) -> (Surroundings, StackOptions) {
    let port = free_port().unwrap();
    let app = App::start(port);
    let receiver = WebhookReceiver::accepting().await.unwrap();
    let roots = dir.join("roots");
    std::fs::create_dir(&roots).unwrap();
    symlink("/", roots.join("node-1")).unwrap();
    for (node, files) in MACHINES {
        unpack::unpack(files, &roots.join(node), false);
    }
    let library = library::build(dir, &[]);
    library::steer(dir, "gpus=1\nnvlinks=2\n");
    let node_settings = format!(
        "[[scrape]]\nurl = \"http://127.0.0.1:{port}/metrics\"\nevery_seconds = 1\n\
         [hardware]\nroot = \"{dir}/roots/{{node}}\"\nnvml_library = {library:?}\n\
         [[hardware.watch]]\nname = \"agents\"\nprocess = \"plimsoll-node\"\n",
        dir = dir.display(),
    );
    let aggregator_settings = format!(
        "[[webhook]]\nname = \"hook\"\nurl = \"{}\"\n\
         [[budget]]\nname = \"planted\"\noperation = \"planted\"\nquantile = 0.99\n\
         limit = \"1ms\"\n",
        receiver.url(),
    );
    let options = StackOptions { node_settings, aggregator_settings, ..with_jobs(dir) };
    (Surroundings { app, _receiver: receiver }, options)
}

/// Exceeds a budget, loses samples, sends an event, a check, a bad line, a bad message and a bad
/// confirmation.
async fn go_wrong(stack: &mut Stack, surroundings: &mut Surroundings) {
    let sender = StatsdSender::unix(&stack.stations()[0].socket).unwrap();
    sender.send(format!("planted:{}|ms|#run:v42", ["5"; 300].join(":"))).unwrap();
    sender.send("_e{5,4}:title|text|t:warning\n_sc|database|2\nnot a line").unwrap();
    sender.send("_seq|client|1|0|2\nplanted:5:5|ms").unwrap();
    sender.send("_seq|client|4|30|1\nplanted:5|ms").unwrap();
    surroundings.app.count("/a", &[0.03; 90], 5);
    let mut publisher = Publisher::connect(stack.broker().url()).await.unwrap();
    publisher.publish("plimsoll.v1.local.normal.node-1.bus", b"garbage".to_vec()).await.unwrap();
    let subject = "plimsoll.v1.local.confirm.node-1".to_owned();
    let (headers, payload) = (Vec::new(), Bytes::from_static(b"garbage"));
    publisher.messenger().publish(UnacknowledgedMessage { subject, headers, payload }).unwrap();
}

/// Every query of every panel has a result, and every exported family is shown or left out.
#[tokio::test]
async fn every_panel_of_the_dashboards_has_something_to_show() {
    let dir = tempfile::tempdir().unwrap();
    let (mut surroundings, options) = surrounded(dir.path()).await;
    let (mut stack, prometheus) = scraped(options).await;
    go_wrong(&mut stack, &mut surroundings).await;

    let mut command = python("python/grafana.py");
    command.args(["--wait", "60", prometheus.url()]);
    for (api, path) in [
        (stack.api(), "/metrics"),
        (stack.api(), "/metrics/nodes"),
        (&stack.stations()[0].api, "/metrics"),
    ] {
        command.arg(format!("{}{path}", api.url()));
    }
    let checked = run(command, CHECK_WAIT).await.unwrap();
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));
    stack.end().await.unwrap();
}
