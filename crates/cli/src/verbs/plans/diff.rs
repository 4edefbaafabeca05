//! Two plans side by side.

use crate::failure::Failure;
use wgoose_plans::{Listed, differences};

pub(super) fn run(a: Listed, b: Listed) -> Result<(), Failure> {
    let (plan_a, plan_b) = (a.plan?, b.plan?);
    let found = differences(&plan_a, &plan_b);
    if found.is_empty() {
        outln!("they choose the same, on the same evidence");
        return Ok(());
    }
    outln!("A: {}\nB: {}", a.name, b.name);
    let width = found.iter().map(|difference| difference.what.chars().count()).max().unwrap_or(0);
    for difference in found {
        listln!("{:<width$}  A  {}", difference.what, difference.a);
        listln!("{:<width$}  B  {}", "", difference.b);
    }
    Ok(())
}
