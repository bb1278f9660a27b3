//! The file that a profile or a difference is written to, in the form that its name asks for.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

/// A file to be written. It appears once it is whole.
pub(super) struct OutputFile {
    path: PathBuf,
    pub(super) form: Form,
    /// Beside it.
    file: NamedTempFile,
}

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Svg,
    Html,
    Speedscope,
    Trace,
    Folded,
    Json,
    Pprof,
}

/// Those of a profile. An ending that is part of another one comes after it.
pub(super) const FORMS: [(&str, Form); 9] = [
    (".svg", Form::Svg),
    (".html", Form::Html),
    (".speedscope.json", Form::Speedscope),
    (".trace.json", Form::Trace),
    (".folded", Form::Folded),
    (".collapsed", Form::Folded),
    (".json", Form::Json),
    (".pb.gz", Form::Pprof),
    (".pprof", Form::Pprof),
];
/// Those of a difference.
pub(super) const OF_DIFFERENCE: [(&str, Form); 5] =
    [FORMS[0], FORMS[1], FORMS[6], FORMS[7], FORMS[8]];

fn form_of(path: &Path, forms: &[(&str, Form)]) -> Option<Form> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    forms.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, form)| *form)
}

impl OutputFile {
    /// Prepares the file; one that is there stays until it is replaced.
    ///
    /// # Errors
    /// When its name has none of these endings, or no file can be created there.
    pub(super) fn create(path: &Path, forms: &[(&str, Form)]) -> Result<Self> {
        let context = || format!("--output {}", path.display());
        let endings = || {
            let endings: Vec<&str> = forms.iter().map(|(ending, _)| *ending).collect();
            format!("end it with one of {}", endings.join(" "))
        };
        let form = form_of(path, forms).with_context(endings).with_context(context)?;
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

    /// Writes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        let written = written.and_then(|()| Ok(self.file.persist(&self.path)?));
        written.map(drop).with_context(|| format!("--output {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_chooses_the_form() {
        for (name, form) in [
            ("flame.svg", Some(Form::Svg)),
            ("dir.pprof/A.SVG", Some(Form::Svg)),
            ("a.html", Some(Form::Html)),
            ("a.speedscope.json", Some(Form::Speedscope)),
            ("a.trace.json", Some(Form::Trace)),
            ("trace.json", Some(Form::Json)),
            ("a.folded", Some(Form::Folded)),
            ("a.collapsed", Some(Form::Folded)),
            ("cpu.pb.gz", Some(Form::Pprof)),
            ("cpu.pprof", Some(Form::Pprof)),
            ("cpu.gz", None),
            ("svg", None),
            ("..", None),
        ] {
            assert_eq!(form_of(Path::new(name), &FORMS), form, "{name}");
        }
        let refused = OutputFile::create(Path::new("a.folded"), &OF_DIFFERENCE).err().unwrap();
        let endings = "--output a.folded: end it with one of .svg .html .json .pb.gz .pprof";
        assert_eq!(format!("{refused:#}"), endings);
    }

    #[test]
    fn a_file_appears_once_it_is_whole_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flame.svg");
        let names = || std::fs::read_dir(folder.path()).unwrap().count();

        // What a capture that fails leaves: nothing, or what was there.
        drop(OutputFile::create(&path, &FORMS).unwrap());
        assert_eq!(names(), 0);
        std::fs::write(&path, "before").unwrap();
        let output = OutputFile::create(&path, &FORMS).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        output.write(b"after").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(names(), 1);

        let missing = folder.path().join("none").join("flame.svg");
        assert!(OutputFile::create(&missing, &FORMS).is_err(), "before a capture is made");
    }
}
