//! Enumerations whose values are labels of metrics.

/// Defines an enumeration with a label for each value: `ALL` has the values in their order,
/// `as_str` returns a label.
#[macro_export]
macro_rules! labelled {
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$of:meta])* $variant:ident = $label:expr,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $vis enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// All of them.
            $vis const ALL: [Self; [$($label),*].len()] = [$(Self::$variant),*];

            /// Its label.
            #[must_use]
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }
    };
}
