//! When a device is warm: its times have stopped moving, and it has worked long enough for its clocks to rise.

/// Watches warm-up times.
#[derive(Clone, Debug)]
pub struct Warmup {
    rule: WarmupRule,
    seen: usize,
    work_ns: f64,
    /// Of the present level: its first sample, how many have stayed with it since, and the work of all of them.
    level: Option<(f64, usize, f64)>,
}

/// When [`Warmup`] is content. Tolerance and patience are CubeCL's; least work is there because two warm-up pairs have
/// been seen to choose the wrong winner (meganeura).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmupRule {
    /// Samples within this share of the first of their level stay on it.
    pub tolerance: f64,
    /// A level is a plateau once this number of samples have stayed on it.
    pub patience: usize,
    /// Or once one has, and the level took so much work, in nanoseconds.
    pub plateau_ns: f64,
    /// Work to be done in any case, in nanoseconds.
    pub least_ns: f64,
    /// Work after which the search for a plateau is given up, in nanoseconds.
    pub most_ns: f64,
    /// Samples that give it up too, once the least work is done.
    pub most: usize,
}

/// Where a warm-up stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// Go on.
    Warming,
    /// The times lie on a plateau.
    Settled,
    /// The cap was reached without a plateau: measure, and expect noise.
    Restless,
}

impl Warmup {
    /// A warm-up that has seen nothing.
    pub const fn new(rule: WarmupRule) -> Self {
        Self { rule, seen: 0, work_ns: 0.0, level: None }
    }

    /// Takes the next time, of something that took `work_ns` in all, and says whether to go on. A level is held against
    /// its *first* sample, so that a slow ramp of steps each within the tolerance is not taken for a plateau.
    pub fn push(&mut self, ns: f64, work_ns: f64) -> Warmth {
        let WarmupRule { tolerance, patience, plateau_ns, least_ns, most_ns, most } = self.rule;
        self.seen += 1;
        self.work_ns += work_ns;
        self.level = match self.level {
            Some((first, stayed, work)) if (ns - first).abs() <= tolerance * first => {
                Some((first, stayed + 1, work + work_ns))
            }
            _ => Some((ns, 0, work_ns)),
        };
        let is_plateau =
            self.level.is_some_and(|(_, stayed, work)| stayed >= patience || (stayed > 0 && work >= plateau_ns));
        if self.work_ns < least_ns {
            Warmth::Warming
        } else if is_plateau {
            Warmth::Settled
        } else if self.seen >= most || self.work_ns >= most_ns {
            Warmth::Restless
        } else {
            Warmth::Warming
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: WarmupRule =
        WarmupRule { tolerance: 0.03, patience: 3, plateau_ns: 250e6, least_ns: 0.0, most_ns: f64::INFINITY, most: 50 };

    /// How many samples it took, and to what end.
    fn warmed(rule: WarmupRule, mut time: impl FnMut(usize) -> f64) -> (usize, Warmth) {
        let mut warmup = Warmup::new(rule);
        let mut push = |i| {
            let ns = time(i);
            warmup.push(ns, ns)
        };
        (0..1_000).map(|i| (i + 1, push(i))).find(|(_, w)| *w != Warmth::Warming).unwrap()
    }

    #[test]
    fn a_plateau_needs_patience() {
        assert_eq!(warmed(RULE, |_| 100.0), (4, Warmth::Settled));
        assert_eq!(warmed(RULE, |i| if i < 5 { 200.0 - 20.0 * i as f64 } else { 100.0 }), (9, Warmth::Settled));
    }

    #[test]
    fn a_plateau_of_long_samples_is_two() {
        assert_eq!(warmed(RULE, |_| 130e6), (2, Warmth::Settled));
        assert_eq!(warmed(RULE, |i| if i == 0 { 200e6 } else { 100e6 }), (4, Warmth::Settled));
        assert_eq!(warmed(RULE, |_| 100e6), (3, Warmth::Settled));
    }

    #[test]
    fn a_slow_ramp_is_no_plateau() {
        // Each step is 2 %, inside the tolerance; the ramp ends at sample 30.
        let (samples, warmth) = warmed(RULE, |i| 100.0 * 0.98f64.powi(i.min(30) as i32));
        assert!(samples > 30, "settled on the ramp after {samples}");
        assert_eq!(warmth, Warmth::Settled);
    }

    #[test]
    fn noise_ends_at_the_most_samples_or_the_most_work() {
        assert_eq!(warmed(RULE, |i| if i % 2 == 0 { 100.0 } else { 110.0 }), (50, Warmth::Restless));
        assert_eq!(warmed(RULE, |_| f64::NAN), (50, Warmth::Restless));
        let rule = WarmupRule { most_ns: 1000.0, ..RULE };
        assert_eq!(warmed(rule, |i| if i % 2 == 0 { 100.0 } else { 110.0 }), (10, Warmth::Restless));
    }

    #[test]
    fn short_samples_go_on_to_the_least_work() {
        let rule = WarmupRule { least_ns: 250e6, ..RULE };
        assert_eq!(warmed(rule, |_| 2e6), (125, Warmth::Settled));
        assert_eq!(warmed(rule, |i| if i % 2 == 0 { 2e6 } else { 3e6 }), (100, Warmth::Restless));
    }
}
