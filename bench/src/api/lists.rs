//! Lists: whole, by pages, by label. One client at a time, as upstream was measured.

use std::collections::BTreeSet;

use serde::{Deserialize, de::IgnoredAny};

use super::{
    client::{ApiRequest, ApiResponse},
    load::{Metadata, RequestTally, ResponseHead, Session, Stopwatch},
    objects::{HUNDREDTH, MINE, SHARDS},
    operations::{CONFIG_MAPS, NAMESPACE, PODS, config_maps, pods},
    upstream::OperationRow,
};
use crate::{BenchError, choices::BenchEffort};

const PAGE: usize = 500;
/// How often each; the shorter ones more often, because CPU time is counted in hundredths of a second.
const WHOLE: u32 = 100;
const WALKS: u32 = 40;
const BY_LABEL: u32 = 1_000;

#[derive(Deserialize)]
struct CountedList {
    metadata: Metadata,
    items: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct ListPage {
    metadata: Metadata,
    items: Vec<ResponseHead>,
}

/// Measures all of them.
pub(crate) async fn measure(
    session: &Session<'_>,
    effort: BenchEffort,
    rows: &mut Vec<OperationRow>,
) -> Result<(), BenchError> {
    let config_maps = config_maps(NAMESPACE);
    let pods = pods(NAMESPACE);
    for (operation, path, items, times) in [
        (
            "list 10,000 ConfigMaps",
            format!("{config_maps}?{MINE}"),
            CONFIG_MAPS,
            WHOLE,
        ),
        ("list 5,000 Pods", format!("{pods}?{MINE}"), PODS, WHOLE),
    ] {
        rows.push(whole(session, operation, path, items, effort.of(times)).await?);
    }
    rows.push(walk(session, &pods, effort.of(WALKS)).await?);
    let path = format!("{pods}?{HUNDREDTH}");
    let items = PODS / SHARDS;
    rows.push(
        whole(
            session,
            "list by label, 1 % of Pods",
            path,
            items,
            effort.of(BY_LABEL),
        )
        .await?,
    );
    Ok(())
}

async fn whole(
    session: &Session<'_>,
    operation: &'static str,
    path: String,
    items: usize,
    times: u32,
) -> Result<OperationRow, BenchError> {
    let make = move |_| ApiRequest::get(&*path);
    let check = move |_, answer: &ApiResponse| is_list(answer, items);
    let measured = session.drive(times as usize, 1, make, check).await?;
    Ok(OperationRow::new(operation, measured))
}

/// Whether an answer is a whole list of so many items.
fn is_list(answer: &ApiResponse, items: usize) -> Result<(), String> {
    answer.expect(&[200])?;
    let list: CountedList = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    if list.items.len() == items && list.metadata.next_page.is_empty() {
        Ok(())
    } else {
        Err(format!("{} items and not {items}", list.items.len()))
    }
}

/// Reads all pods page by page, many times: each must be seen once.
async fn walk(session: &Session<'_>, pods: &str, times: u32) -> Result<OperationRow, BenchError> {
    let mut connection = session.endpoint.connect().await?;
    let stopwatch = Stopwatch::start(session.meter)?;
    let mut tally = RequestTally::default();
    for _ in 0..times {
        let mut seen = BTreeSet::new();
        let mut items = 0;
        let mut path = format!("{pods}?{MINE}&limit={PAGE}");
        loop {
            let mut next_page = String::new();
            let check = |answer: &ApiResponse| {
                answer.expect(&[200])?;
                let page: ListPage =
                    serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
                items += page.items.len();
                seen.extend(page.items.into_iter().map(|item| item.metadata.name));
                next_page = page.metadata.next_page;
                Ok(())
            };
            let is_open = tally.call(&mut connection, ApiRequest::get(&*path), check).await;
            if next_page.is_empty() || !is_open {
                break;
            }
            path = format!("{pods}?{MINE}&limit={PAGE}&continue={next_page}");
        }
        if (items, seen.len()) != (PODS, PODS) {
            tally.error(format!(
                "{items} items on all pages, {} of them different",
                seen.len()
            ));
            break;
        }
    }
    let measured = stopwatch.stop(tally)?;
    Ok(OperationRow::new("list page of 500 Pods", measured))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_all_items_at_once() {
        let answer = |body: &str| ApiResponse {
            status: 200,
            body: body.to_owned().into(),
        };
        let whole = answer(r#"{"metadata":{"resourceVersion":"9"},"items":[{},{}]}"#);
        assert_eq!(is_list(&whole, 2), Ok(()));
        assert!(is_list(&whole, 3).is_err());
        let part = answer(r#"{"metadata":{"continue":"x"},"items":[{},{}]}"#);
        assert!(is_list(&part, 2).is_err());
    }
}
