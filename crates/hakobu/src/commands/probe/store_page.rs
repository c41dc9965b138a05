//! The results of a probe of object stores as a page and as JSON.

use hakobu_core::error::{Error, Result};
use hakobu_core::path::lossy;
use hakobu_core::probe::MeasuredWork;
use hakobu_core::report::{ReportError, text_and_base64};
use hakobu_core::requests::RequestCounts;
use hakobu_core::units::{format_bytes, format_count, format_rate};
use hakobu_transfer::probe::ProbeRequest;
use hakobu_transfer::probe::store::{StoreFigures, StorePlan, StoreProbeResults, StoreTree};
use serde_json::{Value, json as object};

use super::figures::{latency, seconds};
use super::json::PROBE_SCHEMA;
use crate::language::Language;
use crate::render::json::pretty;
use crate::report::page::{LineSpan, NewsTone, PageBlock, PageSection, ReportPage, words};

/// Describes what the probe is about to do.
pub(super) fn announcement(request: &ProbeRequest) -> String {
    let most = if request.gentle { "25 MB" } else { "120 MB" };
    let stores = request.source.iter().chain([&request.target]).filter(|place| place.store().is_some());
    let stores: Vec<_> = stores.map(|place| lossy(place.as_typed())).collect();
    let plan = if request.source.is_some() { ", and make a dry run of the copy" } else { "" };
    format!(
        "a probe will list {0}, read {most} of it at most, which may cost money, and write nothing{plan}",
        stores.join(" and ")
    )
}

/// Returns the page of a probe.
pub(super) fn page(probed: &StoreProbeResults) -> ReportPage {
    let StoreProbeResults { names: (source, target), plan, .. } = probed;
    let name = |bytes: &[u8]| LineSpan::Name(lossy(bytes));
    let mut title = vec![words("Probe of ")];
    if !source.is_empty() {
        title.extend([name(source), words(" to ")]);
    }
    title.push(name(target));
    let figures = |figures: &Option<StoreFigures>| figures.as_ref().map(store).unwrap_or_default();
    let sections = [
        PageSection::of("Requests of a copy", plan.as_ref().map(requests).unwrap_or_default()),
        PageSection::of("Source", figures(&probed.source)),
        PageSection::of("Target", figures(&probed.target)),
    ];
    let (outcome, tone, meaning) = outcome(plan.as_ref());
    ReportPage {
        language: Language::En,
        warning: Vec::new(),
        title,
        outcome,
        tone,
        meaning,
        sections: sections.into_iter().flatten().collect(),
    }
}

fn outcome(plan: Option<&StorePlan>) -> (String, NewsTone, Vec<String>) {
    let Some(plan) = plan else {
        let meaning = "With a SOURCE and a TARGET, probe counts the requests of the copy.".to_owned();
        return ("The store answers".to_owned(), NewsTone::Good, vec![meaning]);
    };
    if let Some(error) = &plan.obstacle {
        return (format!("A copy would fail: {error}"), NewsTone::Bad, Vec::new());
    }
    let least = if plan.complete { "" } else { "at least " };
    let both = |one: &RequestCounts, other: &RequestCounts| one.plus(other);
    let source = both(&plan.compared.source, &plan.changes.source);
    let target = both(&plan.compared.target, &plan.changes.target);
    let count = |counts: &RequestCounts| counts.kinds().map(|(_, count)| count).sum::<u64>();
    let line = format!("A copy takes {least}{} requests", format_count(count(&source) + count(&target)));
    let mut meaning = vec![format!(
        "It sends {least}{} to a store, and receives {least}{} from one, besides listings.",
        format_bytes(plan.changes.source.sent_bytes + plan.changes.target.sent_bytes),
        format_bytes(plan.changes.source.received_bytes + plan.changes.target.received_bytes)
    )];
    if !plan.complete {
        meaning.push("There was no time to compare everything; hakobu copy -n does.".to_owned());
    }
    let tone = if plan.complete { NewsTone::Good } else { NewsTone::Mixed };
    (line, tone, meaning)
}

fn requests(plan: &StorePlan) -> Vec<PageBlock> {
    if plan.obstacle.is_some() {
        return Vec::new();
    }
    let StorePlan { compared, changes, .. } = plan;
    let rows = [
        ("source, to compare", &compared.source),
        ("source, for the changes", &changes.source),
        ("target, to compare", &compared.target),
        ("target, for the changes", &changes.target),
    ];
    let head = ["", "list", "head", "get", "put", "copy", "delete"].map(str::to_owned).to_vec();
    let row = |(label, counts): &(&str, &RequestCounts)| {
        let RequestCounts { list, head, get, put, copy, delete, .. } = **counts;
        let numbers = [list, head, get, put, copy, delete].map(format_count);
        [vec![(*label).to_owned()], numbers.to_vec()].concat()
    };
    let rows: Vec<_> = rows.iter().filter(|(_, counts)| !counts.is_empty()).map(row).collect();
    if rows.is_empty() { Vec::new() } else { vec![PageBlock::Table(head, rows)] }
}

fn store(figures: &StoreFigures) -> Vec<PageBlock> {
    let mut facts = Vec::new();
    let mut fact = |label: &str, text: String| facts.push((label.to_owned(), vec![words(text)]));
    if let Some(time) = latency(figures.round_trip.map(|time| time.as_nanos() as u64)) {
        fact("One request", time);
    }
    match figures.uses_tls {
        Some(true) => fact("Connection", "TLS".to_owned()),
        Some(false) => fact("Connection", "not encrypted".to_owned()),
        None => {}
    }
    if let Some(tree) = &figures.tree {
        tree_facts(tree, &mut fact);
    }
    if let Some(rate) = figures.small.as_ref().and_then(MeasuredWork::per_second) {
        fact("Small objects", format!("{} read a second, by one lane", format_count(rate.round() as u64)));
    }
    if let Some(large) = &figures.large
        && let Some(rate) = large.bytes_per_second()
    {
        let lanes = if large.threads == 1 { "lane" } else { "lanes" };
        fact("Large objects", format!("{} with {} {lanes}", format_rate(rate), large.threads));
    }
    let kinds = figures.requests.kinds().map(|(kind, count)| format!("{} {kind}", format_count(count)));
    fact("Sent by this probe", kinds.collect::<Vec<_>>().join(", "));
    let mut blocks = vec![PageBlock::Facts(facts)];
    let remark = |text: &String| PageBlock::Words(vec![words(format!("{text}."))]);
    blocks.extend(figures.remarks.iter().map(remark));
    blocks
}

fn tree_facts(tree: &StoreTree, fact: &mut impl FnMut(&str, String)) {
    let least = if tree.complete { "" } else { "at least " };
    let of = |count: u64, one: &str, several: &str| {
        format!("{} {}", format_count(count), if count == 1 { one } else { several })
    };
    let directories = of(tree.directories, "directory", "directories");
    fact(
        "Tree",
        format!("{least}{} in {directories}, {}", of(tree.files, "file", "files"), format_bytes(tree.bytes)),
    );
    let took = seconds(tree.elapsed_ns as f64 / 1e9);
    fact("Listing", format!("{least}{} in {took}", of(tree.lists, "request", "requests")));
}

/// Returns the results as one object.
///
/// # Errors
/// None that is known; serialising could fail.
pub(crate) fn json(probed: &StoreProbeResults) -> Result<String> {
    let place = |name: &[u8]| {
        let (path, base64) = text_and_base64(name);
        let mut place = object!({ "path": (!name.is_empty()).then_some(path) });
        if let Some(base64) = base64 {
            place["path_base64"] = base64.into();
        }
        place
    };
    let plan = probed.plan.as_ref().map(|plan| {
        object!({
            "compare_source": plan.compared.source,
            "compare_target": plan.compared.target,
            "planned_source": plan.changes.source,
            "planned_target": plan.changes.target,
            "complete": plan.complete,
            "error": plan.obstacle.as_ref().map(ReportError::from),
        })
    });
    let all = object!({
        "schema": PROBE_SCHEMA,
        "source": place(&probed.names.0),
        "target": place(&probed.names.1),
        "source_store": probed.source.as_ref().map(store_object),
        "target_store": probed.target.as_ref().map(store_object),
        "requests": plan,
    });
    pretty(&all).map_err(|error| Error::io("writing the figures", &error))
}

fn store_object(figures: &StoreFigures) -> Value {
    let per_second = |rate: Option<f64>| rate.map(|rate| rate.round() as u64);
    let tree = figures.tree.map(|tree| {
        object!({
            "files": tree.files,
            "directories": tree.directories,
            "bytes": tree.bytes,
            "lists": tree.lists,
            "seconds": tree.elapsed_ns as f64 / 1e9,
            "complete": tree.complete,
        })
    });
    object!({
        "request_seconds": figures.round_trip.map(|time| time.as_secs_f64()),
        "tls": figures.uses_tls,
        "tree": tree,
        "small_objects_per_second": per_second(figures.small.as_ref().and_then(MeasuredWork::per_second)),
        "bytes_per_second": per_second(figures.large.as_ref().and_then(MeasuredWork::bytes_per_second)),
        "lanes": figures.large.as_ref().map(|large| large.threads),
        "sent": figures.requests,
        "remarks": figures.remarks,
    })
}
