//! Days as people write them.

use std::time::{SystemTime, UNIX_EPOCH};

/// The day of a moment, `2026-11-20`, in UTC. Moments before 1970 are its first day.
pub fn day(moment: SystemTime) -> String {
    let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut year, mut days) = (1970, seconds / 86_400);
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    let february = days_of_year(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

fn days_of_year(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    if is_leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn seconds_become_days_of_the_calendar() {
        let of = |seconds| day(UNIX_EPOCH + Duration::from_secs(seconds));
        // As `date -u -d @SECONDS +%F` says.
        assert_eq!(of(0), "1970-01-01");
        assert_eq!(of(86_399), "1970-01-01");
        assert_eq!(of(951_782_400), "2000-02-29");
        assert_eq!(of(951_868_800), "2000-03-01");
        assert_eq!(of(1_798_675_200), "2026-12-31");
        assert_eq!(of(1_798_761_600), "2027-01-01");
    }
}
