//! What all sections of the settings file are made of.

/// Defines a section, with the default of each key behind its `=`: the value of a key that the file
/// leaves out.
macro_rules! section {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$of:meta])* pub $key:ident: $type:ty = $default:expr,)*
    }) => {
        #[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
        #[serde(default)]
        $(#[$about])*
        pub struct $name { $($(#[$of])* pub $key: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }
    };
}

pub(super) use section;

pub(super) fn few(key: &str, len: usize, max: usize, things: &str) -> Result<(), String> {
    if len > max {
        return Err(format!("{key} must have at most {max} {things}"));
    }
    Ok(())
}
