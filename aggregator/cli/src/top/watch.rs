//! The loop of the screen: keys, answers, signals and time into the state, and its effects.

use std::pin::Pin;

use anyhow::Result;
use plimsoll_clock::Stopwatch;
use plimsoll_runtime::client::Api;
use plimsoll_runtime::signals::Signals;

use super::limits::TICK;
use super::page::{ALERTS, Page, SUMMARY};
use super::screen::Screen;
use super::state::{Effect, Event, State};

/// Whether what is watched goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    Running,
    /// Its time is over.
    Over,
}

type Request = Pin<Box<dyn Future<Output = Event>>>;

/// Shows the aggregators in the terminal until the operator quits, a signal arrives, or `check`
/// returns that it is over. A hint is shown above the status line. The terminal is restored in each
/// case.
///
/// # Errors
/// When the terminal fails, or `check` does.
pub(crate) async fn watch(
    apis: &[Api],
    hint: Option<String>,
    signals: &mut Signals,
    mut check: impl FnMut() -> Result<Watched>,
) -> Result<()> {
    let watch = Stopwatch::start();
    let mut state = State::new(apis.iter().map(|api| api.url().to_owned()).collect());
    state.set_hint(hint);
    let mut screen = Screen::enter()?;
    let mut request: Option<Request> = None;
    screen.show(&state)?;

    loop {
        let event = tokio::select! {
            // A terminal that is gone has no operator.
            key = screen.next() => match key {
                Some(event) => event,
                None => return Ok(()),
            },
            event = answer(&mut request) => event,
            _ = signals.next() => return Ok(()),
            () = tokio::time::sleep(TICK) => Event::Tick,
        };

        if check()? == Watched::Over {
            return Ok(());
        }
        let mut is_changed = false;
        let mut next = Some(event);

        // Many keys are one frame.
        while let Some(event) = next {
            match state.on_event(event, watch.elapsed()) {
                Effect::None => {}
                Effect::Draw => is_changed = true,
                Effect::Repaint => {
                    screen.clear()?;
                    is_changed = true;
                }
                Effect::Quit => return Ok(()),
                Effect::Request(of) => {
                    let api = apis.get(of).cloned();
                    request = api.map(|api| Box::pin(timed(api)) as Request);
                }
            }
            next = screen.ready();
        }

        if is_changed {
            screen.show(&state)?;
        }
    }
}

/// The answer to the request under way; pending while there is none.
async fn answer(request: &mut Option<Request>) -> Event {
    let Some(under_way) = request else { return std::future::pending().await };
    let event = under_way.await;
    *request = None;
    event
}

async fn timed(api: Api) -> Event {
    let watch = Stopwatch::start();
    let page = request(&api).await;
    Event::Answer(page.map(Box::new).map_err(|error| cause(&error)), watch.elapsed())
}

/// The last cause names what the operator can change; URLs of the ones before are on the screen.
fn cause(error: &anyhow::Error) -> String {
    error.root_cause().to_string()
}

pub(super) async fn request(api: &Api) -> Result<Page> {
    let (summary, alerts) =
        tokio::try_join!(api.request("GET", SUMMARY, None), api.request("GET", ALERTS, None))?;
    // Of ten thousand nodes it takes longer than a key may wait.
    tokio::task::spawn_blocking(move || Page::read(&summary, &alerts)).await?
}
