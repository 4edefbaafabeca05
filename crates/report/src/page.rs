//! A report as one HTML file: no script, nothing from elsewhere.

use super::charts::{Gain, MOST_POINTS, MOST_VARIANTS, control, gains, heat, progress, strip};
use super::course::Course;
use super::drawing::DRAWINGS;
use super::failures::Failed;
use super::gather::LedgerReport;
use super::html::{LONG, SHORT, Table, escape};
use super::left_out::LeftOut;
use super::numbers::{Ratio, count, digits, gain, of, time, utc};
use super::point::Point;
use super::sites::Site;
use super::view::{KERNEL, Subject};
use std::collections::BTreeMap;
use wgoose_measure::derive::{Derived, overall};

/// A ledger that a report was made of.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name, as it was given.
    pub name: String,
    /// What was amiss in it.
    pub notices: Vec<String>,
}

/// More rows than this stay in the ledger.
const MOST_ROWS: usize = 300;

/// So many of a site's kernels are written out.
const FASTEST: usize = 12;

/// More sites than this are not drawn.
const MOST_SITES: usize = 200;

/// The page.
pub fn page(report: &LedgerReport, sources: &[Source]) -> String {
    let title = match &report.subject {
        Some(subject) => format!("Tuning on {}", escape(&subject.device.adapter, SHORT)),
        None => "Tuning".to_owned(),
    };
    let style = [DRAWINGS, include_str!("style.css")].concat();
    let sections = [
        ("plan", "The plan against the default", plan(report)),
        ("search", "What was searched", search(report)),
        ("course", "How the search went", course(&report.course)),
        ("sites", "Kernels alone", sites(&report.sites)),
        ("failures", "Failures and quarantine", failures(&report.failures)),
        ("decisions", "Decisions", decisions(report)),
        ("again", "How to do it again", again(report, sources)),
    ];
    let links = sections.iter().map(|(id, name, _)| format!("<a href=\"#{id}\">{name}</a>\n")).collect::<String>();
    let body =
        sections.iter().map(|(id, name, html)| format!("<section id=\"{id}\">\n<h2>{name}</h2>\n{html}</section>\n"));
    let head = subject(report, sources);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n{head}<nav>\n{links}</nav>\n</header>\n<main>\n\
         {}</main>\n</body>\n</html>\n",
        body.collect::<String>()
    )
}

/// What was tuned, where and when.
fn subject(report: &LedgerReport, sources: &[Source]) -> String {
    let names: Vec<String> =
        sources.iter().map(|source| format!("<code>{}</code>", escape(&source.name, SHORT))).collect();
    let mut rows = vec![(if names.len() == 1 { "Ledger" } else { "Ledgers" }, names.join(", "))];
    if let Some(Subject { device, model, shape, version, began }) = &report.subject {
        let parts = format!("{}, {}, {}, wgpu {}", device.adapter, device.driver, device.backend, device.wgpu);
        rows.push(("Device", escape(&parts, LONG)));
        let sizes = shape.map_or(String::new(), |(layers, width)| format!("{layers} layers of width {width}, "));
        let model = model.as_deref().unwrap_or("not said");
        rows.push(("Model", format!("{sizes}content <code>{}</code>", escape(model, 32))));
        let program = version.as_ref().map_or(String::new(), |version| format!(", by wgoose {}", escape(version, 32)));
        let date = utc(*began).map_or("at no date".to_owned(), |date| date.replace(['T', 'Z'], " ") + "UTC");
        rows.push(("Newest sweep", format!("{date}{program}")));
    }
    let seconds = digits(report.course.spent);
    let budget = report.course.budget.map_or(String::new(), |budget| format!(" of a budget of {} s", digits(budget)));
    rows.push(("Time spent", format!("{seconds} s{budget}")));
    let mut html = "<dl>\n".to_owned();
    rows.iter().for_each(|(name, text)| html += &format!("<dt>{name}</dt><dd>{text}</dd>\n"));
    html += "</dl>\n";
    if report.others > 0 {
        html += &format!("<p class=\"note\">{} of other devices or models left out.</p>\n", of(report.others, "trial"));
    }
    for notice in sources.iter().flat_map(|source| &source.notices).take(20) {
        html += &format!("<p class=\"note\">Amiss: {}</p>\n", escape(notice, LONG));
    }
    html
}

/// The result.
fn plan(report: &LedgerReport) -> String {
    let derived = match &report.derived {
        Ok(derived) => derived,
        Err(error) => return format!("<p>No plan can be derived: {}.</p>\n", escape(&error.to_string(), LONG)),
    };
    let name = escape(&report.objective.name, SHORT);
    let mut html = String::new();
    if derived.gains.is_empty() {
        let what = match derived.plan.choices.len() {
            0 => "The default plan stays: nothing that was compared as a whole qualifies.".to_owned(),
            n => format!("{} beat the default alone. The plan was not compared as a whole.", of(n, "kernel")),
        };
        html += &format!("<p class=\"lead\">{what}</p>\n");
    } else {
        html += &whole(derived, &name);
    }
    let missing: Vec<Vec<String>> = derived.missing.iter().map(|line| vec![escape(line, LONG)]).collect();
    if !missing.is_empty() {
        let summary = format!("Not measured ({})", missing.len());
        html += &Table::of(&["What"], &missing, MOST_ROWS, Clone::clone).folded(&summary);
    }
    let choices = &derived.plan.choices;
    let row = |choice: &wgoose_kernels::plan::Choice| {
        vec![escape(&choice.key.to_string(), SHORT), format!("<code>{}</code>", escape(&choice.to_string(), LONG))]
    };
    html + &Table::of(&["Op instances", "Kernel"], choices, MOST_ROWS, row)
        .folded(&format!("Kernels of the plan ({})", choices.len()))
}

/// A plan that was compared as a whole.
fn whole(derived: &Derived, name: &str) -> String {
    let sum = |end: fn(&wgoose_measure::derive::Gain) -> f64| {
        derived.gains.iter().map(|g| g.share * end(g)).sum::<f64>().exp()
    };
    let ends = [sum(|g| g.result.comparison.interval.low), sum(|g| g.result.comparison.interval.high)];
    let all = Ratio { gain: overall(&derived.gains).exp(), interval: ends };
    let mut rows = vec![Gain {
        name: format!("All, weighted for {name}"),
        detail: format!("{}, {}", all.gain(), all.ends()),
        gain: all.gain,
        interval: all.interval,
    }];
    let mut table =
        Table::new(&["Scenario", "#Weight", "#Default", "#Plan", "#Times as fast", "#95 % interval", "#Pairs"]);
    for g in &derived.gains {
        let ratio = Ratio::of(&g.result.comparison);
        let [before, now] = [g.result.incumbent_ns, g.result.candidate_ns].map(time);
        let scenario = g.scenario.to_string();
        table.row(vec![
            escape(&scenario, SHORT),
            format!("{:.1} %", 100.0 * g.share),
            before.clone(),
            now.clone(),
            ratio.gain(),
            ratio.ends(),
            g.result.comparison.pairs.to_string(),
        ]);
        let detail = format!("{before} → {now} · {}", ratio.gain());
        rows.push(Gain { name: scenario, detail, gain: ratio.gain, interval: ratio.interval });
    }
    let id = derived.plan.hash();
    let mut html = format!(
        "<p class=\"lead\">{} times as fast as the default for <b>{name}</b>, by the weighted mean of the logarithms of its scenarios' gains.</p>\n\
         <p>Plan <code>{id}</code>. Dots are medians of paired samples, bars their 95 % intervals (bootstrap of the median log-ratio, 10,000 \
         resamples); those of the weighted mean are the weighted ends, which is wider than it need be.</p>\n<div class=\"grid\"><div>\n{}</div>\n",
        all.gain().trim_start_matches('×'),
        gains("The plan against the default", "default", &rows)
    );
    if let Some(evidence) = &derived.plan.evidence {
        let (certified, of) = evidence.certified;
        html += &format!(
            "<div>\n<dl><dt>Quality hash</dt><dd><code>{}</code></dd>\n<dt>Class of precision</dt><dd>{}</dd>\n\
             <dt>Certified positions</dt><dd>{certified} of {of}</dd>\n<dt>Checked up to</dt><dd>{}</dd>\n<dt>Error of the logits</dt><dd>{:.1e} of their root mean square</dd></dl>\n</div>",
            escape(&evidence.quality_hash, 64),
            evidence.class.map_or("not recorded".to_owned(), |class| class.to_string()),
            evidence.checked,
            evidence.rms_error
        );
    }
    html + "</div>\n" + &table.html("The plan against the default")
}

/// How many kernels were timed alone, by the jobs that the table of jobs counts.
fn kernels(report: &LedgerReport) -> String {
    let jobs = report.searched.iter().find(|searched| searched.kind == KERNEL).map_or(0, |searched| searched.jobs);
    if jobs == 0 {
        return String::new();
    }
    let measured: usize = report.sites.iter().map(|site| site.points.len()).sum();
    let failed: usize = report.sites.iter().map(|site| site.failed).sum();
    format!(
        "<p>{} of kernels alone at {}: {} measured, {} failed, {} measured again.</p>\n",
        of(jobs, "job"),
        of(report.sites.len(), "site"),
        count(measured as u64),
        count(failed as u64),
        count(jobs.saturating_sub(measured + failed) as u64)
    )
}

/// What was run and what was not.
fn search(report: &LedgerReport) -> String {
    let LeftOut { refusals, untried, counted_sites, configurations: [all, refused, measured] } = &report.left_out;
    let mut html = kernels(report);
    if *all > 0 {
        let open = all.saturating_sub(refused + measured);
        html += &format!(
            "<p>At the {} whose spaces the ledger counts, {} configurations: {} were refused without being run, {} were measured, and \
             {} were not tried.</p>\n",
            of(*counted_sites, "site"),
            count(*all),
            count(*refused),
            count(*measured),
            count(open)
        );
    }
    let jobs = Table::of(&["Job", "#Number", "#Seconds"], &report.searched, MOST_ROWS, |s| {
        vec![s.kind.to_owned(), count(s.jobs as u64), format!("{:.1}", s.seconds)]
    });
    html += &format!(
        "<div class=\"grid\"><div>\n<h3>What was run</h3>\n{}</div>\n<div>\n<h3>Out of time, not tried</h3>\n",
        jobs.html("What was run")
    );
    html += &match untried.is_empty() {
        true => "<p class=\"note\">The ledger names no change of a plan that no time was left for.</p>\n".to_owned(),
        false => {
            Table::of(&["Changes"], untried, MOST_ROWS, |line| vec![escape(line, LONG)]).html("Out of time, not tried")
        }
    };
    html += "</div></div>\n<h3>Refused, by reason</h3>\n";
    if refusals.is_empty() {
        return html + "<p class=\"note\">Nothing was refused.</p>\n";
    }
    let row = |r: &super::left_out::Refusals| {
        let names: Vec<&str> = r.variants.iter().take(4).map(String::as_str).collect();
        let more = if r.variants.len() > 4 { format!(" and {} more", r.variants.len() - 4) } else { String::new() };
        vec![
            count(r.configurations),
            escape(&r.reason, LONG),
            escape(&names.join(", "), LONG) + &more,
            r.cause.to_string(),
        ]
    };
    let heads = ["#Configurations", "Reason", "Variants", "Class"];
    html += &Table::of(&heads, &refusals[..refusals.len().min(8)], 8, row).html("Refused, by reason");
    if refusals.len() > 8 {
        html += &Table::of(&heads, &refusals[8..], MOST_ROWS, row).folded(&of(refusals.len() - 8, "more reason"));
    }
    html + "<p class=\"note\">A configuration counts once at every site.</p>\n"
}

/// The best so far, and the control kernel.
fn course(course: &Course) -> String {
    let mut html = String::new();
    if course.progress.is_empty() {
        html += "<p class=\"note\">No plans were compared, or the ledger does not say with what.</p>\n";
    } else {
        html += "<p class=\"key\"><b class=\"chosen\">━</b> the best plan so far · <b class=\"blue\">●</b> a plan that was compared · \
                 <b class=\"blue\">○</b> one that a few samples ruled out or let through · <b>┄</b> the default. How many times as fast as the \
                 default, on a logarithmic axis; gains are chained through the plan that each was compared with. What was slower than ×0.7 \
                 stands at the edge.</p>\n";
    }
    html += "<div class=\"grid\">\n";
    for own in &course.progress {
        html += &format!("<figure><h3>{}</h3>\n{}", escape(&own.scenario.to_string(), SHORT), progress(own, course));
        let rows: Vec<(f64, f64)> = own.best.clone();
        let table =
            Table::of(&["#Seconds", "#Times as fast"], &rows, MOST_ROWS, |(at, x)| vec![format!("{at:.1}"), gain(*x)]);
        html += &(table.folded(&format!("Best so far; {} tried", count(own.attempts.len() as u64))) + "</figure>\n");
    }
    if let Some(chart) = control(course) {
        html += &format!(
            "<figure><h3>Control kernel</h3>\n{chart}<p class=\"note\">It never changes: what moves is the machine. Change \
             against the first visit; dots are medians, bars quartiles; within the band of ±2 % nothing is void.</p>\n"
        );
        let row = |visit: &super::course::ControlVisit| {
            vec![
                format!("{:.1}", visit.at),
                time(visit.ns.median),
                format!("{} to {}", time(visit.ns.min), time(visit.ns.q3)),
            ]
        };
        html += &Table::of(&["#Seconds", "#Median", "#Least to third quartile"], &course.control, MOST_ROWS, row)
            .folded("Visits");
        html += "</figure>\n";
    }
    html + "</div>\n"
}

/// Each site.
fn sites(sites: &[Site]) -> String {
    if sites.is_empty() {
        return "<p class=\"note\">No kernel was timed alone.</p>\n".to_owned();
    }
    let mut html = "<p class=\"key\"><b class=\"blue\">|</b> a kernel that ran and was right, at the median of its samples · \
                    <b class=\"chosen\">◆</b> the plan's · <b>□</b> the default · <b>┊</b> the roofline, where it is within reach. Kernels of a \
                    megakernel are chosen in whole steps: the plan's need not be the fastest alone.</p>\n"
        .to_owned();
    if let Some(ceiling) = sites.iter().find_map(|site| site.ceiling) {
        let whence = match ceiling.is_measured {
            true => "as <code>wgoose dev roofline</code> measured them",
            false => "the most that any kernel of this ledger reached, so that the best of all stands on its own line",
        };
        html += &format!(
            "<p class=\"note\">Roofline: the longer of its bytes at {} GB/s and its operations at {} GFLOP/s, {whence}.</p>\n",
            digits(ceiling.bytes),
            digits(ceiling.flops)
        );
    }
    html += "<div class=\"grid\">\n";
    for site in sites.iter().take(MOST_SITES) {
        html += &one_site(site);
    }
    html += "</div>\n";
    if sites.len() > MOST_SITES {
        html += &format!("<p class=\"note\">and {} more sites</p>\n", sites.len() - MOST_SITES);
    }
    html
}

fn one_site(site: &Site) -> String {
    let name = escape(&site.name, SHORT);
    let mut facts = vec![format!("{} measured", count(site.points.len() as u64))];
    if let Some([all, refused]) = site.configurations {
        facts.push(format!("{} of {} refused", count(refused), count(all)));
    }
    if site.failed > 0 {
        facts.push(format!("{} failed", site.failed));
    }
    if let (Some(least), Some(best)) = (site.least_ns, site.points.first()) {
        facts.push(format!("fastest at {} % of the roofline", digits(100.0 * least / best.ns.median)));
    }
    let mut html = format!("<article><h3>{name}</h3>\n<p class=\"note\">{}</p>\n", facts.join(" · "));
    if site.points.is_empty() {
        return html + "</article>\n";
    }
    html += &strip(site);
    let mut variants: BTreeMap<&str, usize> = BTreeMap::new();
    site.points.iter().for_each(|point| *variants.entry(point.variant.as_str()).or_default() += 1);
    if variants.len() > MOST_VARIANTS || variants.values().any(|n| *n > MOST_POINTS) {
        html += &format!(
            "<p class=\"note\">Drawn: the fastest {MOST_VARIANTS} variants, and of each the fastest {MOST_POINTS}.</p>\n"
        );
    }
    for (what, marked) in [("The plan's", &site.chosen), ("The default", &site.default)] {
        if let Some((label, place)) = marked {
            let timed =
                place.map_or(", not measured alone".to_owned(), |i| format!(", {}", time(site.points[i].ns.median)));
            html += &format!("<p class=\"note\">{what}: <code>{}</code>{timed}</p>\n", escape(label, LONG));
        }
    }
    let row = |point: &Point| {
        let ns = &point.ns;
        vec![
            format!("<code>{}</code>", escape(&point.label(), LONG)),
            time(ns.median),
            format!("{} to {}", time(ns.q1), time(ns.q3)),
            ns.n.to_string(),
        ]
    };
    let fastest = &site.points[..site.points.len().min(FASTEST)];
    html += &Table::of(&["Kernel", "#Median", "#Quartiles", "#Samples"], fastest, FASTEST, row).folded(&format!(
        "The fastest {} of {}",
        fastest.len(),
        count(site.points.len() as u64)
    ));
    if !site.compared.is_empty() {
        let row = |c: &super::sites::Compared| {
            let ratio = Ratio::of(&c.comparison);
            vec![
                format!("<code>{}</code>", escape(&c.kernels[1], LONG)),
                format!("<code>{}</code>", escape(&c.kernels[0], LONG)),
                format!("{}, {}", ratio.gain(), ratio.ends()),
                c.comparison.verdict.to_string() + if c.held_out { ", held out" } else { "" },
            ]
        };
        let heads = ["Candidate", "Incumbent", "#Times as fast", "Verdict"];
        html +=
            &Table::of(&heads, &site.compared, 40, row).folded(&format!("Compared in pairs ({})", site.compared.len()));
    }
    if let Some(map) = &site.heat {
        let [a, b] = map.explained.map(|share| format!("{:.0} %", 100.0 * share));
        html += &format!(
            "<h3>{}: {} by {}</h3>\n{}<p class=\"note\">Time of the fastest kernel with these two values, as a multiple of the variant's fastest, \
             {}. Empty: not measured. Alone they explain {a} and {b} of the variance of log time, the most of its tunables.</p>\n",
            escape(&map.variant, SHORT),
            escape(&map.columns.0, 40),
            escape(&map.rows.0, 40),
            heat(map, &site.name),
            time(map.least_ns()),
        );
    }
    html + "</article>\n"
}

/// What failed, by cause, then in order.
fn failures(failures: &[Failed]) -> String {
    if failures.is_empty() {
        return "<p>Nothing failed.</p>\n".to_owned();
    }
    let cause = |failed: &Failed| failed.cause.map_or("broken off".to_owned(), |cause| cause.to_string());
    let mut causes: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for failed in failures {
        let [all, kept] = causes.entry(cause(failed)).or_default();
        *all += 1;
        *kept += usize::from(failed.is_kept);
    }
    let causes: Vec<(String, [usize; 2])> = causes.into_iter().collect();
    let by_cause = Table::of(&["Cause", "#Failures", "#In quarantine"], &causes, MOST_ROWS, |(cause, [all, kept])| {
        vec![cause.clone(), all.to_string(), kept.to_string()]
    });
    let each = Table::of(&["#Seconds", "Cause", "What", "Said"], failures, MOST_ROWS, |failed| {
        vec![format!("{:.1}", failed.at), cause(failed), escape(&failed.what, LONG), escape(&failed.text, LONG)]
    });
    by_cause.html("Failures by cause")
        + "<p class=\"note\">What is in quarantine has a folder in <code>quarantine/</code> beside its ledger if its trial ran in a process of \
           its own, and is not tried again.</p>\n"
        + &each.html("Failures in order")
}

fn decisions(report: &LedgerReport) -> String {
    if report.decisions.is_empty() {
        return "<p class=\"note\">The ledger has none.</p>\n".to_owned();
    }
    let table =
        Table::of(&["#Seconds", "Stage", "Decision", "Best plan then"], &report.decisions, MOST_ROWS, |decided| {
            vec![
                format!("{:.1}", decided.at),
                escape(&decided.stage, 40),
                escape(&decided.text, 2 * LONG),
                format!("<code>{}</code>", escape(&decided.best, 8)),
            ]
        });
    table.html("Decisions in order")
}

/// The commands.
fn again(report: &LedgerReport, sources: &[Source]) -> String {
    let ledgers: Vec<String> = sources.iter().map(|source| shell(&source.name)).collect();
    let workload = match report.objective.name.as_str() {
        "chat" => String::new(),
        name => format!(" --workload {}", shell(name)),
    };
    let budget = report.course.budget.map_or(String::new(), |budget| format!(" --budget {budget:.0}"));
    let mut html = "<p>The same plan, without a GPU:</p>\n".to_owned();
    html += &format!(
        "<pre>{}</pre>\n",
        escape(&format!("wgoose plans derive {}{workload} --out plan.ron", ledgers.join(" ")), 4000)
    );
    html += "<p>The search again, on the device, with the model's file:</p>\n";
    html += &format!("<pre>{}</pre>\n", escape(&format!("wgoose tune MODEL{budget}{workload} --out plan.ron"), 4000));
    html += "<p>What failed, with its folder of <code>quarantine/</code>; the command ends with 1 where it fails again:</p>\n";
    html += "<pre>wgoose dev trial --replay BUNDLE</pre>\n<p>This page:</p>\n";
    html + &format!("<pre>{}</pre>\n", escape(&format!("wgoose plans report {}{workload}", ledgers.join(" ")), 4000))
}

/// An argument as shells take it.
fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
