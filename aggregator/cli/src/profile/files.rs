//! Files of profiles: which form a name asks for, and how each is written and read.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plimsoll_profile::limits::ENCODED_BYTES_MAX;
use plimsoll_profile::{Profile, ThreadState, flame, folded, pprof, svg};

/// A file that is open to be written, in the form that its name asks for.
pub(super) struct OutputFile {
    path: PathBuf,
    form: Form,
    file: File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Svg,
    Json,
    Folded,
    Pprof,
}

impl Form {
    fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let endings = [
            (".svg", Self::Svg),
            (".json", Self::Json),
            (".folded", Self::Folded),
            (".pb.gz", Self::Pprof),
            (".pprof", Self::Pprof),
        ];
        let known = endings.into_iter().find(|(ending, _)| name.ends_with(ending));
        let (_, form) = known.with_context(|| {
            format!("--output {}: end it with .svg, .json, .folded or .pb.gz", path.display())
        })?;
        Ok(form)
    }
}

impl OutputFile {
    /// Creates the file.
    ///
    /// # Errors
    /// When its name has no known ending, or it cannot be created.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let form = Form::of(path)?;
        let file = File::create(path).with_context(|| format!("--output {}", path.display()))?;
        Ok(Self { path: path.to_owned(), form, file })
    }

    /// Writes a profile; but for pprof, its threads in one state.
    ///
    /// # Errors
    /// When it is too large, or cannot be written.
    pub(super) fn write_profile(
        self,
        title: &str,
        profile: &Profile,
        state: Option<ThreadState>,
    ) -> Result<()> {
        match self.form {
            Form::Pprof => self.write(&pprof::encode(profile)?),
            Form::Folded => self.write(folded::write(profile, state).as_bytes()),
            Form::Svg | Form::Json => self.write_graph(title, &flame::of_profile(profile, state)),
        }
    }

    /// Writes a flame graph.
    ///
    /// # Errors
    /// When the file's form is that of a profile, or it cannot be written.
    pub(super) fn write_graph(self, title: &str, graph: &flame::FlameGraph) -> Result<()> {
        match self.form {
            Form::Svg => self.write(svg::render(title, graph).as_bytes()),
            Form::Json => self.write(&serde_json::to_vec(graph)?),
            Form::Folded | Form::Pprof => {
                let path = self.path.display();
                bail!("--output {path}: a difference is a flame graph; end it with .svg or .json")
            }
        }
    }

    fn write(mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        written.with_context(|| format!("--output {}", self.path.display()))
    }
}

/// Reads a pprof file.
///
/// # Errors
/// When it cannot be read, is too large, or is none.
pub(super) fn read(path: &Path) -> Result<Profile> {
    let read = || -> Result<Profile> {
        let mut bytes = Vec::new();
        // A byte more than is accepted shows that there are more.
        let limit = ENCODED_BYTES_MAX as u64 + 1;
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(pprof::decode(&bytes)?)
    };
    read().with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_chooses_the_form() {
        for (name, form) in [
            ("flame.svg", Some(Form::Svg)),
            ("dir.json/A.SVG", Some(Form::Svg)),
            ("flame.json", Some(Form::Json)),
            ("stacks.folded", Some(Form::Folded)),
            ("cpu.pb.gz", Some(Form::Pprof)),
            ("cpu.pprof", Some(Form::Pprof)),
            ("cpu.gz", None),
            ("svg", None),
            ("..", None),
        ] {
            let read = Form::of(Path::new(name));
            assert_eq!(read.as_ref().ok(), form.as_ref(), "{name}");
            if let Err(error) = read {
                assert!(error.to_string().contains("end it with .svg, .json, .folded or .pb.gz"));
            }
        }
    }
}
