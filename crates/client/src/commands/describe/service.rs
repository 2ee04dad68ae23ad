//! Services, with where they lead.

use serde_json::Value;

use super::{
    generic::heading,
    sheet::{Sheet, shown, text},
};
use crate::{
    commands::pods::selector_text,
    failed::Failed,
    resource::{escape, with_query},
    session::Session,
};

pub(super) async fn describe(sheet: &mut Sheet, session: &Session, service: &Value) -> Result<(), Failed> {
    let spec = &service["spec"];
    heading(sheet, service);
    let selector = selector_text(&spec["selector"]);
    sheet.line("Selector", if selector.is_empty() { "<none>" } else { &selector });
    sheet.line("Type", text(&spec["type"]));
    sheet.some("IP Family Policy", &spec["ipFamilyPolicy"]);
    sheet.some("IP Families", &spec["ipFamilies"]);
    sheet.line("IP", text(&spec["clusterIP"]));
    sheet.some("IPs", &spec["clusterIPs"]);
    sheet.some("External IPs", &spec["externalIPs"]);
    sheet.some("External Name", &spec["externalName"]);
    let ingress = service["status"]["loadBalancer"]["ingress"]
        .as_array()
        .into_iter()
        .flatten();
    let ingress: Vec<String> = ingress
        .map(|place| {
            place["ip"]
                .as_str()
                .map_or_else(|| text(&place["hostname"]), str::to_owned)
        })
        .collect();
    if !ingress.is_empty() {
        sheet.line("LoadBalancer Ingress", ingress.join(", "));
    }
    let slices = slices(session, service).await?;
    for port in spec["ports"].as_array().into_iter().flatten() {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        let name = port["name"].as_str().unwrap_or("<unset>");
        sheet.line("Port", format!("{name}  {}/{protocol}", port["port"]));
        sheet.line("TargetPort", format!("{}/{protocol}", shown(&port["targetPort"])));
        if let Some(node) = port["nodePort"].as_i64() {
            sheet.line("NodePort", format!("{name}  {node}/{protocol}"));
        }
        sheet.line("Endpoints", endpoints(&slices, port));
    }
    sheet.some("Session Affinity", &spec["sessionAffinity"]);
    sheet.some("Internal Traffic Policy", &spec["internalTrafficPolicy"]);
    sheet.some("External Traffic Policy", &spec["externalTrafficPolicy"]);
    Ok(())
}

async fn slices(session: &Session, service: &Value) -> Result<Vec<Value>, Failed> {
    let part = |name: &str| service["metadata"][name].as_str().unwrap_or_default();
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
        escape(part("namespace"))
    );
    let selector = format!("kubernetes.io/service-name={}", part("name"));
    let mut list = match session
        .api
        .get(&with_query(&path, &[("labelSelector", Some(selector))]))
        .await
    {
        // Whoever may not see where it leads sees the rest.
        Err(failed) if failed.http_code() == Some(403) || failed.is_not_found() => return Ok(Vec::new()),
        list => list?,
    };
    match list["items"].take() {
        Value::Array(items) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

/// The addresses behind a port that are ready.
fn endpoints(slices: &[Value], port: &Value) -> String {
    let name = port["name"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    for slice in slices {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let number = ports
            .into_iter()
            .find(|port| port["name"].as_str().unwrap_or_default() == name)
            .and_then(|port| port["port"].as_i64());
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            if endpoint["conditions"]["ready"] == false {
                continue;
            }
            for address in endpoint["addresses"].as_array().into_iter().flatten() {
                let address = address.as_str().unwrap_or_default();
                found.push(number.map_or_else(|| address.to_owned(), |number| format!("{address}:{number}")));
            }
        }
    }
    let more = found.len().saturating_sub(3);
    found.truncate(3);
    match (found.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => found.join(","),
        (false, more) => format!("{} + {more} more...", found.join(",")),
    }
}
