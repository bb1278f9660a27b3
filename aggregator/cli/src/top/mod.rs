//! `plimsoll top`: budgets, nodes and alerts of a running mesh, live in a terminal.
//!
//! [`page`] turns the API's answers into rows with safe text, [`pane`] sorts and filters them,
//! [`state`] takes events and returns effects, [`draw`] makes a frame of the state. These are pure.
//! [`screen`] owns the terminal and its keys, [`watch`] joins all in a loop. Everything shown is
//! read from the pages that scripts read; no change is possible from here.
//!
//! DESIGN A120.

mod draw;
mod limits;
mod page;
mod pane;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod watch;

use anyhow::Result;
use clap::Args;
use plimsoll_runtime::client::Api;
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::signals::Signals;
use plimsoll_runtime::stdout::{print, print_line};
use serde::Serialize;

use crate::targets::Targets;
use page::Page;
use state::{Event, State};

pub(crate) use screen::is_terminal;
pub(crate) use watch::{Watched, watch};

/// Watch budgets, nodes and alerts in the terminal
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll top
  plimsoll top --url http://a:9900 --url http://b:9900    the one that answers
  plimsoll top --once                                     one frame as plain text
  plimsoll top --json | jq '.budgets[] | select(.verdict == \"breach\")'

Keys: ? lists them. NO_COLOR=1 turns colours off. Nodes are the worst ones, as many as the
aggregator's metrics.nodes_max.")]
pub struct TopArgs {
    /// Print one frame as plain text and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    at: Targets,
}

/// One page with its origin, as `--json` prints it.
#[derive(Serialize)]
struct Printed<'a> {
    url: &'a str,
    #[serde(flatten)]
    page: &'a Page,
}

/// Shows the aggregators' figures until the operator quits; without a terminal, one frame.
///
/// # Errors
/// When the terminal fails, or with one frame when no aggregator answers.
pub async fn top(args: &TopArgs) -> Result<Exit> {
    let apis = args.at.apis()?;
    if args.at.is_json() {
        let (url, page) = first_answer(&apis).await?;
        print_line(serde_json::to_string(&Printed { url: &url, page: &page })?);
    } else if args.once || !is_terminal() {
        let (url, page) = first_answer(&apis).await?;
        let mut state = State::new(vec![url]);
        state.on_event(Event::Answer(Ok(Box::new(page)), Default::default()), Default::default());
        print(screen::plain(&state, screen::size())?);
    } else {
        let mut signals = Signals::listen()?;
        watch(&apis, None, &mut signals, || Ok(Watched::Running)).await?;
    }

    Ok(Exit::Success)
}

/// The page of the first aggregator that answers.
async fn first_answer(apis: &[Api]) -> Result<(String, Page)> {
    let mut failed = anyhow::anyhow!("no --url");
    for api in apis {
        match watch::request(api).await {
            Ok(page) => return Ok((api.url().to_owned(), page)),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
