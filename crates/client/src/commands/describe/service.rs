//! Description of services, with their endpoints.

use serde_json::Value;

use super::{
    generic::describe_metadata,
    sheet::{DescriptionSheet, shown, text},
};
use crate::{
    api_resource::{escape, with_query},
    commands::pods::selector_text,
    error::ClientError,
    session::CommandSession,
};

pub(super) async fn describe(
    sheet: &mut DescriptionSheet,
    session: &CommandSession,
    service: &Value,
) -> Result<(), ClientError> {
    let spec = &service["spec"];
    describe_metadata(sheet, service);
    let selector = selector_text(&spec["selector"]);
    sheet.line("Selector", if selector.is_empty() { "<none>" } else { &selector });
    sheet.line("Type", text(&spec["type"]));
    sheet.line_if_set("IP Family Policy", &spec["ipFamilyPolicy"]);
    sheet.line_if_set("IP Families", &spec["ipFamilies"]);
    sheet.line("IP", text(&spec["clusterIP"]));
    sheet.line_if_set("IPs", &spec["clusterIPs"]);
    sheet.line_if_set("External IPs", &spec["externalIPs"]);
    sheet.line_if_set("External Name", &spec["externalName"]);
    let ingress = service["status"]["loadBalancer"]["ingress"]
        .as_array()
        .into_iter()
        .flatten();
    let ingress: Vec<String> = ingress
        .map(|ingress| {
            ingress["ip"]
                .as_str()
                .map_or_else(|| text(&ingress["hostname"]), str::to_owned)
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
    sheet.line_if_set("Session Affinity", &spec["sessionAffinity"]);
    sheet.line_if_set("Internal Traffic Policy", &spec["internalTrafficPolicy"]);
    sheet.line_if_set("External Traffic Policy", &spec["externalTrafficPolicy"]);
    Ok(())
}

async fn slices(session: &CommandSession, service: &Value) -> Result<Vec<Value>, ClientError> {
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
        // A user who may get services may lack permission to list endpoint slices.
        Err(failed) if failed.http_code() == Some(403) || failed.is_not_found() => return Ok(Vec::new()),
        list => list?,
    };
    match list["items"].take() {
        Value::Array(items) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

/// Formats the ready addresses of a port; at most three are listed.
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
