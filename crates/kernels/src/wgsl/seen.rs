//! `// seen: DEVICE MODEL: N % of the roofline (RECORD)`: how fast a kernel was somewhere, for people. A kernel is
//! the same with and without such a line.

/// How such a line ends, before its record.
const OF_ROOFLINE: &str = " % of the roofline (";

/// Refuses what is not written so.
pub(super) fn check(value: &str) -> Result<(), String> {
    let is_one = || {
        let (said, record) = value.strip_suffix(')')?.split_once(OF_ROOFLINE)?;
        let (place, percent) = said.rsplit_once(": ")?;
        let named = !place.trim().is_empty() && !record.trim().is_empty();
        (named && percent.parse::<u32>().is_ok()).then_some(())
    };
    is_one().ok_or_else(|| "cannot read this: '// seen: DEVICE MODEL: N % of the roofline (RECORD)'".to_owned())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_seen_directive_has_a_place_a_percentage_and_a_record() {
        assert_eq!(check("NVIDIA H200 2.9B Q4_K_M: 78 % of the roofline (2026-11-29, 12.5 us)"), Ok(()));
        for wrong in ["", "fast", "H200: 78 %", "H200: much % of the roofline (a)", ": 7 % of the roofline (a)"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
