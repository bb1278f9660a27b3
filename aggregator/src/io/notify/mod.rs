//! Posts what the core has to tell, on a task for each receiver, so that none waits for another
//! and the driver for none of them. What is posted, and when again, the core decides.

mod endpoint;
mod exchange;
mod trust;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::core::alerting::{Answer, Body, Post};

pub use endpoint::Endpoint;

/// The driver's end of all receivers' tasks.
pub struct Notifier {
    tasks: BTreeMap<Arc<str>, Task>,
    answers: mpsc::Receiver<(Arc<str>, Answer)>,
}

struct Task {
    posts: mpsc::Sender<Body>,
    handle: JoinHandle<()>,
}

impl Notifier {
    /// A task for each receiver.
    #[must_use]
    pub fn start(endpoints: Vec<Endpoint>) -> Self {
        // Of each receiver one post is on its way, so its answer always finds room.
        let (answer, answers) = mpsc::channel(endpoints.len().max(1));
        let tasks = endpoints.into_iter().map(|endpoint| {
            let (posts, bodies) = mpsc::channel(1);
            let name = Arc::clone(&endpoint.receiver.name);
            let handle = tokio::spawn(run(endpoint, bodies, answer.clone()));
            (name, Task { posts, handle })
        });
        Self { tasks: tasks.collect(), answers }
    }

    /// Hands a post to its receiver's task; false when that is not there to take it.
    #[must_use]
    pub fn post(&self, post: Post) -> bool {
        let task = self.tasks.get(&post.receiver);
        task.is_some_and(|task| task.posts.try_send(post.body).is_ok())
    }

    /// The next answer; never, where nobody is told of anything.
    pub async fn next(&mut self) -> Option<(Arc<str>, Answer)> {
        self.answers.recv().await
    }

    /// Ends all tasks, whatever they wait for.
    pub async fn end(self) {
        for (_, task) in self.tasks {
            task.handle.abort();
            // It was told to end, and has nothing to say.
            drop(task.handle.await);
        }
    }
}

async fn run(
    endpoint: Endpoint,
    mut bodies: mpsc::Receiver<Body>,
    answers: mpsc::Sender<(Arc<str>, Answer)>,
) {
    let name = &endpoint.receiver.name;
    let mut failed = false;
    while let Some(body) = bodies.recv().await {
        let answer = endpoint.post(endpoint.body(body)).await;
        let taken = answer == Answer::Taken;
        if taken == failed {
            failed = !taken;
            tell(name, answer);
        }
        if answers.send((Arc::clone(name), answer)).await.is_err() {
            return;
        }
    }
}

/// Says that a receiver stopped taking notices, or takes them again.
fn tell(receiver: &str, answer: Answer) {
    match answer {
        Answer::Taken => tracing::info!(receiver, "receiver takes notices again"),
        Answer::Refused(why) => tracing::warn!(receiver, why, "receiver refuses a notice"),
        Answer::Failed(why, _) => tracing::warn!(receiver, why, "receiver does not take notices"),
    }
}
