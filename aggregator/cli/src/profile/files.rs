//! The file that a profile is written to, in the form that its name asks for.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plimsoll_profile::{Profile, ThreadState, flame, pprof, svg};
use tempfile::NamedTempFile;

/// A file to be written. It appears once it is whole.
pub(super) struct OutputFile {
    path: PathBuf,
    form: Form,
    /// Beside it.
    file: NamedTempFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Svg,
    Pprof,
}

impl Form {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let endings = [(".svg", Self::Svg), (".pb.gz", Self::Pprof), (".pprof", Self::Pprof)];
        endings.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, form)| form)
    }
}

impl OutputFile {
    /// Prepares the file; one that is there stays until it is replaced.
    ///
    /// # Errors
    /// When its name has no known ending, or no file can be created there.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let context = || format!("--output {}", path.display());
        let form = Form::of(path).context("end it with .svg or .pb.gz").with_context(context)?;
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

    /// Writes a profile: as pprof all of it, as a flame graph its threads in one state.
    ///
    /// # Errors
    /// When it is too large, or cannot be written.
    pub(super) fn write(
        mut self,
        title: &str,
        profile: &Profile,
        state: Option<ThreadState>,
    ) -> Result<()> {
        let bytes = match self.form {
            Form::Pprof => pprof::encode(profile)?,
            Form::Svg => svg::render(title, &flame::of_profile(profile, state)).into_bytes(),
        };
        let written = self.file.write_all(&bytes);
        let written = written.and_then(|()| Ok(self.file.persist(&self.path)?));
        written.map(drop).with_context(|| format!("--output {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_profile::ValueType;

    use super::*;

    #[test]
    fn the_ending_of_a_name_chooses_the_form() {
        for (name, form) in [
            ("flame.svg", Some(Form::Svg)),
            ("dir.pprof/A.SVG", Some(Form::Svg)),
            ("cpu.pb.gz", Some(Form::Pprof)),
            ("cpu.pprof", Some(Form::Pprof)),
            ("cpu.gz", None),
            ("svg", None),
            ("..", None),
        ] {
            assert_eq!(Form::of(Path::new(name)), form, "{name}");
        }
        let error = format!("{:#}", OutputFile::create(Path::new("a.txt")).err().unwrap());
        assert_eq!(error, "--output a.txt: end it with .svg or .pb.gz");
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
        output.write("t", &Profile::new(ValueType::wall(), 1), None).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("<svg"));
        assert_eq!(names(), 1);

        let missing = folder.path().join("none").join("flame.svg");
        assert!(OutputFile::create(&missing).is_err(), "before a capture is made");
    }
}
