//! Files of profiles: which form a name asks for, and how each is written and read.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plimsoll_profile::limits::ENCODED_BYTES_MAX;
use plimsoll_profile::{Profile, ThreadState, flame, folded, pprof, svg};
use tempfile::NamedTempFile;

/// A file to be written, in the form that its name asks for. It appears once it is whole.
pub(super) struct OutputFile {
    path: PathBuf,
    form: Form,
    /// Beside it.
    file: NamedTempFile,
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
    /// Prepares the file; one that is there stays until it is replaced.
    ///
    /// # Errors
    /// When its name has no known ending, or no file can be created there.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let form = Form::of(path)?;
        let context = || format!("--output {}", path.display());
        if path.is_dir() {
            bail!("{}: it is a directory", context());
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        // The umask applies, as to any file.
        let file = tempfile::Builder::new()
            .prefix(".plimsoll-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(parent.unwrap_or(Path::new(".")))
            .with_context(context)?;
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
        let written = written.and_then(|()| Ok(self.file.persist(&self.path)?));
        written.map(drop).with_context(|| format!("--output {}", self.path.display()))
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

    #[test]
    fn a_file_appears_once_it_is_whole_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flame.svg");
        let names = || std::fs::read_dir(folder.path()).unwrap().count();

        // What a capture that fails leaves: nothing, or what was there.
        drop(OutputFile::create(&path).unwrap());
        assert_eq!(names(), 0);
        std::fs::write(&path, "before").unwrap();
        let output = OutputFile::create(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        output.write(b"whole").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(names(), 1);

        let missing = folder.path().join("none").join("flame.svg");
        assert!(OutputFile::create(&missing).is_err(), "before a capture is made");
    }
}
