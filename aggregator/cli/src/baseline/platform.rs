//! The targets of platforms, which `platforms.toml` has as data, and how a value is judged by one.

use anyhow::{Context, Result, bail};
use plimsoll_schemas::figure::{bytes, number, percent};
use serde::{Deserialize, Serialize};

/// A baseline that ships: what a job reaches on a platform.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Platform {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) targets: Vec<Target>,
}

/// Between what bounds a figure is to be.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    pub(super) figure: Figure,
    pub(super) min: Option<f64>,
    pub(super) max: f64,
}

/// A figure that a target is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Figure {
    TokensPerSecond,
    MemoryUsedBytes,
    GpuTemperatureCelsius,
    GpuUtilizationRatio,
    CpuUsageRatio,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Placement {
    Within,
    Below,
    Above,
}

impl Placement {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Below => "below",
            Self::Above => "above",
        }
    }
}

impl Figure {
    /// Its words in tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::TokensPerSecond => "tokens/s",
            Self::MemoryUsedBytes => "memory used",
            Self::GpuTemperatureCelsius => "GPU temperature",
            Self::GpuUtilizationRatio => "GPU busy",
            Self::CpuUsageRatio => "CPU busy",
        }
    }

    /// A value of it for people.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::TokensPerSecond => number(value),
            Self::MemoryUsedBytes => bytes(value),
            Self::GpuTemperatureCelsius => format!("{} °C", number(value)),
            Self::GpuUtilizationRatio | Self::CpuUsageRatio => percent(value),
        }
    }
}

impl Target {
    pub(super) fn place(&self, value: f64) -> Placement {
        match self.min {
            Some(min) if value < min => Placement::Below,
            Some(_) if value <= self.max => Placement::Within,
            None if value < self.max => Placement::Within,
            _ => Placement::Above,
        }
    }

    /// Whether a value there meets the target: more tokens than expected are no fault.
    pub(super) fn is_met(&self, at: Placement) -> bool {
        let is_rate = self.figure == Figure::TokensPerSecond;
        at == Placement::Within || (at == Placement::Above && is_rate)
    }

    /// Its bounds for people.
    pub(super) fn text(&self) -> String {
        let max = self.figure.text(self.max);
        match self.min {
            Some(min) => format!("{} to {max}", self.figure.text(min)),
            None => format!("under {max}"),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    platform: Vec<Platform>,
}

/// All that ship, in the order of the file.
pub(super) fn shipped() -> Vec<Platform> {
    let file: File =
        toml::from_str(include_str!("platforms.toml")).expect("a file that a test reads");
    file.platform
}

/// The one of a name.
///
/// # Errors
/// When there is none; names those that there are, or the command for one that `compare` saved.
pub(super) fn find(name: &str, saved: &[String]) -> Result<Platform> {
    let all = shipped();
    if saved.iter().any(|of| of == name) && all.iter().all(|of| of.name != name) {
        bail!("{name} is a baseline of samples: plimsoll compare --baseline check {name} run:NAME");
    }
    let known: Vec<&str> = all.iter().map(|of| of.name.as_str()).collect();
    let known = known.join(", ");
    let found = all.into_iter().find(|of| of.name == name);
    found.with_context(|| format!("no baseline {name:?} ships: {known}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_shipped_platform_has_the_targets_of_its_guide() {
        let shown = |of: &Platform| {
            let target = |of: &Target| format!("{} {}", of.figure.title(), of.text());
            of.targets.iter().map(target).collect::<Vec<_>>().join("; ")
        };
        let all: Vec<(String, String)> =
            shipped().iter().map(|of| (of.name.clone(), shown(of))).collect();
        let expected = [
            (
                "jetson-orin-agx",
                "tokens/s 15 to 25; memory used under 8 GiB; GPU temperature under 70 °C; GPU busy \
                 70 % to 90 %",
            ),
            (
                "jetson-nano",
                "tokens/s 3 to 7; memory used under 4 GiB; GPU temperature under 65 °C; GPU busy \
                 80 % to 95 %",
            ),
            ("x86", "tokens/s 5 to 15; memory used under 4 GiB; CPU busy 70 % to 90 %"),
        ];
        assert_eq!(all, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn a_name_that_compare_saved_leads_to_compare() {
        let saved = ["v1.4".to_owned(), "x86".to_owned()];
        assert_eq!(find("x86", &saved).unwrap().name, "x86");
        let error = find("v1.4", &saved).unwrap_err().to_string();
        assert!(error.ends_with("plimsoll compare --baseline check v1.4 run:NAME"), "{error}");
        let error = find("v2", &saved).unwrap_err().to_string();
        assert_eq!(error, "no baseline \"v2\" ships: jetson-orin-agx, jetson-nano, x86");
    }

    #[test]
    fn ends_of_a_range_belong_to_it_and_a_bound_alone_does_not() {
        let range = Target { figure: Figure::CpuUsageRatio, min: Some(0.7), max: 0.9 };
        let under = Target { figure: Figure::GpuTemperatureCelsius, min: None, max: 70.0 };
        for (target, value, at) in [
            (range, 0.69, Placement::Below),
            (range, 0.7, Placement::Within),
            (range, 0.9, Placement::Within),
            (range, 0.91, Placement::Above),
            (under, -5.0, Placement::Within),
            (under, 69.9, Placement::Within),
            (under, 70.0, Placement::Above),
            (under, f64::NAN, Placement::Above),
        ] {
            assert_eq!(target.place(value), at, "{value}");
        }
        let rate = Target { figure: Figure::TokensPerSecond, ..range };
        assert!(rate.is_met(Placement::Above) && !range.is_met(Placement::Above));
        assert!(!rate.is_met(Placement::Below) && range.is_met(Placement::Within));
    }

    proptest! {
        #[test]
        fn a_larger_value_never_lies_lower(a in 0.0..40.0, more in 0.0..40.0) {
            let order = |at| match at {
                Placement::Below => 0,
                Placement::Within => 1,
                Placement::Above => 2,
            };
            for target in shipped().into_iter().flat_map(|of| of.targets) {
                prop_assert!(order(target.place(a)) <= order(target.place(a + more)));
            }
        }
    }
}
