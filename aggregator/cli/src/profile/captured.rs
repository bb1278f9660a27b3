//! A profile with its name, and its bytes in each form.

use anyhow::Result;
use plimsoll_profile::flame::{Detail, detailed};
use plimsoll_profile::{
    ColourBy, Profile, ThreadState, folded, html, pprof, speedscope, summary, svg, trace_events,
};

use super::files::Form;

/// A profile, its name, and how its capture went, in one line each.
pub(super) struct Captured {
    pub(super) title: String,
    /// Under which an aggregator keeps it.
    pub(super) id: Option<String>,
    pub(super) facts: String,
    pub(super) profile: Profile,
}

impl Captured {
    /// In a form of file.
    ///
    /// # Errors
    /// When it is too large for one.
    pub(super) fn bytes(
        &self,
        form: Form,
        state: Option<ThreadState>,
        top: usize,
        colour: ColourBy,
    ) -> Result<Vec<u8>> {
        let (title, profile) = (&self.title, &self.profile);
        let text = match form {
            Form::Pprof => return Ok(pprof::encode(profile)?),
            Form::Svg => {
                svg::render_coloured(title, &detailed(profile, state, Detail::PICTURE), colour)
            }
            Form::Html => html::of_profile(title, profile, state, colour),
            Form::Speedscope => speedscope::write(title, profile, state),
            Form::Trace => trace_events::write(title, profile, state),
            Form::Folded => folded::write(profile, state),
            Form::Json => self.summary(state, top)? + "\n",
        };
        Ok(text.into_bytes())
    }

    /// As JSON.
    ///
    /// # Errors
    /// When it has no id and is too large for a file.
    pub(super) fn summary(&self, state: Option<ThreadState>, top: usize) -> Result<String> {
        let id = match &self.id {
            Some(id) => id.clone(),
            None => content_id(&pprof::encode(&self.profile)?),
        };
        let summary = summary::of_profile(&id, &self.profile, state, top);
        Ok(serde_json::to_string_pretty(&summary)?)
    }
}

/// The name of a profile that no aggregator keeps: FNV-1a of its pprof file, so that equal profiles
/// have the same.
fn content_id(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}
