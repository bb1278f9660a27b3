//! Posts notifications to Alertmanagers and webhooks, with a task for each receiver, so that a slow
//! one delays neither the others nor the driver. The core decides what is posted, and when again.
//!
//! A task that panics is started again; the post that it was making counts as failed.
//!
//! DESIGN A52.

mod endpoint;
mod exchange;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_runtime::supervision::Supervisor;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::core::alerting::{Answer, Body, Post};

pub use endpoint::Endpoint;

/// The driver's end of all receivers' tasks.
pub struct Notifier {
    tasks: BTreeMap<Arc<str>, Task>,
    answers: mpsc::Receiver<PostOutcome>,
}

/// How a post ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostOutcome {
    pub receiver: Arc<str>,
    pub answer: Answer,
    /// Why it was not taken, in one line; empty if it was.
    pub cause: String,
}

struct Task {
    posts: mpsc::Sender<Body>,
    handle: JoinHandle<()>,
}

impl Notifier {
    /// A task for each receiver.
    pub fn start(endpoints: Vec<Endpoint>, supervisor: &Supervisor) -> Self {
        // Each receiver has at most one post in flight, so there is always room for its answer.
        let (answer, answers) = mpsc::channel(endpoints.len().max(1));

        let tasks = endpoints.into_iter().map(|endpoint| {
            let (posts, bodies) = mpsc::channel(1);
            let name = Arc::clone(&endpoint.receiver.name);
            let (endpoint, bodies) = (Arc::new(endpoint), Arc::new(Mutex::new(bodies)));
            let answer = answer.clone();
            let posting = supervisor
                .task("notify")
                .run(move || run(Arc::clone(&endpoint), Arc::clone(&bodies), answer.clone()));
            let handle = tokio::spawn(posting);
            (name, Task { posts, handle })
        });

        Self { tasks: tasks.collect(), answers }
    }

    /// Hands a post to its receiver's task; false when the task is gone or busy.
    pub fn post(&self, post: Post) -> bool {
        let task = self.tasks.get(&post.receiver);
        task.is_some_and(|task| task.posts.try_send(post.body).is_ok())
    }

    /// The next answer; `None` when there are no receivers. Cancel safe.
    pub async fn next(&mut self) -> Option<PostOutcome> {
        self.answers.recv().await
    }

    /// Ends all tasks at once.
    pub async fn end(self) {
        for (_, task) in self.tasks {
            task.handle.abort();
            // An aborted task returns nothing.
            drop(task.handle.await);
        }
    }
}

/// The answer to a post, which is a failure if its task panics: the core waits for one.
struct OpenPost<'a> {
    name: &'a Arc<str>,
    answers: &'a mpsc::Sender<PostOutcome>,
}

impl Drop for OpenPost<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // There is room: the receiver has no other post in flight.
            let _sent = self.answers.try_send(PostOutcome {
                receiver: Arc::clone(self.name),
                answer: PANICKED,
                cause: String::new(),
            });
        }
    }
}

const PANICKED: Answer = Answer::Failed("panic", None);

async fn run(
    endpoint: Arc<Endpoint>,
    bodies: Arc<Mutex<mpsc::Receiver<Body>>>,
    answers: mpsc::Sender<PostOutcome>,
) {
    // For as long as the task lives: one that is started again after a panic takes the queue over.
    let mut bodies = bodies.lock().await;
    let name = &endpoint.receiver.name;
    let mut failed = false;

    while let Some(body) = bodies.recv().await {
        let open = OpenPost { name, answers: &answers };
        let (answer, cause) = exchange::post(&endpoint, endpoint.body(body)).await;
        drop(open);
        let accepted = answer == Answer::Taken;

        // Only a change is logged, or a receiver that is down would fill the log.
        if accepted == failed {
            failed = !accepted;
            log(name, answer, &cause);
        }

        let outcome = PostOutcome { receiver: Arc::clone(name), answer, cause };
        if answers.send(outcome).await.is_err() {
            return;
        }
    }
}

/// Logs that a receiver stopped accepting notifications, or accepts them again.
fn log(receiver: &str, answer: Answer, cause: &str) {
    let text = answer.explained(cause);
    match answer {
        Answer::Taken => tracing::info!(receiver, "receiver accepts notifications again"),
        Answer::Refused(why) => {
            tracing::warn!(receiver, why, "receiver rejected a notification: {text}");
        }
        Answer::Failed(why, _) => {
            tracing::warn!(receiver, why, "receiver unreachable or failing: {text}");
        }
    }
}
