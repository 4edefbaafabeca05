//! Configurations: which choice is taken of each tunable of a variant.

use crate::wgsl::Declared;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// One choice for each tunable of a variant, in the order of their declaration; made and read by that variant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Config(Vec<u8>);

/// A configuration as plans, ledgers and people spell it: choice by tunable. Plans are resolved against the variants that
/// there are ([`crate::Variant::config`]).
pub type SpelledConfig = BTreeMap<String, String>;

/// Reads a spelled configuration that names no tunable twice: a map would keep the last choice in silence.
pub(crate) fn each_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SpelledConfig, D::Error> {
    struct EachOnce;
    impl<'de> Visitor<'de> for EachOnce {
        type Value = SpelledConfig;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("choices by tunable")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SpelledConfig, A::Error> {
            let mut config = SpelledConfig::new();
            while let Some((name, choice)) = map.next_entry::<String, String>()? {
                if let Some(earlier) = config.insert(name, choice) {
                    return Err(A::Error::custom(format!("a tunable has two choices, '{earlier}' and another")));
                }
            }
            Ok(config)
        }
    }
    deserializer.deserialize_map(EachOnce)
}

/// Why a spelled configuration is none of a variant's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A tunable that the variant lacks.
    #[error("{variant} has no tunable {name}: it has {tunables}")]
    Unknown {
        /// The variant.
        variant: String,
        /// What was named.
        name: String,
        /// What there is.
        tunables: String,
    },
    /// A tunable without a choice.
    #[error("{variant} needs a choice for {name}: {choices}")]
    Missing {
        /// The variant.
        variant: String,
        /// The tunable.
        name: String,
        /// What can be chosen.
        choices: String,
    },
    /// A choice that a tunable does not have.
    #[error("{variant}: {name} = {value} is not one of its choices: {choices}")]
    Choice {
        /// The variant.
        variant: String,
        /// The tunable.
        name: String,
        /// What was asked for.
        value: String,
        /// What can be chosen.
        choices: String,
    },
}

impl Config {
    pub(crate) fn new(choices: Vec<u8>) -> Self {
        Config(choices)
    }

    /// The index of the choice taken of each tunable.
    pub fn choices(&self) -> &[u8] {
        &self.0
    }

    /// In how many tunables two configurations of a variant differ.
    pub fn distance(&self, other: &Config) -> usize {
        self.0.iter().zip(&other.0).filter(|(a, b)| a != b).count()
    }

    /// Every configuration of a variant with these tunables, the last tunable changing fastest.
    pub(crate) fn all(tunables: &[Declared]) -> Vec<Config> {
        let extend = |all: Vec<Config>, tunable: &Declared| {
            let with = |config: &Config, choice: usize| Config([&config.0[..], &[choice as u8]].concat());
            all.iter().flat_map(|config| (0..tunable.choices.len()).map(move |choice| with(config, choice))).collect()
        };
        tunables.iter().fold(vec![Config::default()], extend)
    }

    /// The choice of each tunable, as it is written.
    pub(crate) fn spelled(&self, tunables: &[Declared]) -> SpelledConfig {
        let of = |(tunable, choice): (&Declared, &u8)| {
            Some((tunable.name.clone(), tunable.choices.get(usize::from(*choice))?.clone()))
        };
        tunables.iter().zip(&self.0).filter_map(of).collect()
    }

    /// Reads a spelled configuration.
    pub(crate) fn read(variant: &str, tunables: &[Declared], spelled: &SpelledConfig) -> Result<Config, ConfigError> {
        if let Some(name) = spelled.keys().find(|name| tunables.iter().all(|t| t.name != **name)) {
            let tunables = tunables.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(" ");
            return Err(ConfigError::Unknown { variant: variant.to_owned(), name: name.clone(), tunables });
        }
        let choice = |t: &Declared| match spelled.get(&t.name) {
            None => Err(ConfigError::Missing {
                variant: variant.to_owned(),
                name: t.name.clone(),
                choices: t.choices.join(" "),
            }),
            Some(value) => {
                t.choices.iter().position(|c| c == value).map(|i| i as u8).ok_or_else(|| ConfigError::Choice {
                    variant: variant.to_owned(),
                    name: t.name.clone(),
                    value: value.clone(),
                    choices: t.choices.join(" "),
                })
            }
        };
        tunables.iter().map(choice).collect::<Result<_, _>>().map(Config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunables() -> Vec<Declared> {
        let of = |name: &str, choices: &[&str], default| Declared {
            name: name.to_owned(),
            choices: choices.iter().map(|c| (*c).to_owned()).collect(),
            default,
            is_import: false,
        };
        vec![of("WG", &["64", "128"], 1), of("x", &["f32", "q8", "q15"], 0)]
    }

    #[test]
    fn spelling_and_reading_are_inverse() {
        let tunables = tunables();
        let all = Config::all(&tunables);
        assert_eq!(all.len(), 6);
        assert_eq!((all[1].choices(), all[1].distance(&all[3])), (&[0, 1][..], 2));
        for config in &all {
            assert_eq!(Config::read("v", &tunables, &config.spelled(&tunables)).as_ref(), Ok(config));
        }
    }

    #[test]
    fn unknown_missing_and_wrong_tunables_are_refused() {
        let tunables = tunables();
        let spelled = |of: &[(&str, &str)]| of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let read = |of: &[(&str, &str)]| Config::read("v", &tunables, &spelled(of));
        assert!(matches!(read(&[("GRID", "1")]), Err(ConfigError::Unknown { .. })));
        assert!(matches!(read(&[("WG", "64")]), Err(ConfigError::Missing { .. })));
        assert!(matches!(read(&[("WG", "sixty")]), Err(ConfigError::Choice { .. })));
        assert_eq!(read(&[("WG", "128"), ("x", "q15")]).unwrap().choices(), [1, 2]);
    }
}
