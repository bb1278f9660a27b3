//! A receiver's address, headers and template, from its settings. All errors are found at the
//! start, and no message contains a secret.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::limits::notifications::{
    RECEIVERS_MAX, RESEND_EVERY_MAX, RESEND_EVERY_MIN, SECRET_BYTES_MAX, TEMPLATE_BYTES_MAX,
};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use plimsoll_runtime::client::Address;
use plimsoll_runtime::trust::{Trust, trust};
use plimsoll_schemas::ids::RuleName;
use url::Url;

use crate::config::{Alertmanager, Config, Webhook};
use crate::core::alerting::template::Template;
use crate::core::alerting::{Body, Receiver, ReceiverKind, fields};

/// The shipped templates, by the names that settings use.
const TEMPLATES: [(&str, &str); 3] = [
    ("plimsoll", include_str!("../../../templates/plimsoll.json")),
    ("slack", include_str!("../../../templates/slack.json")),
    ("pagerduty", include_str!("../../../templates/pagerduty.json")),
];

/// The URL of PagerDuty's Events API.
const PAGERDUTY: &str = "https://events.pagerduty.com/v2/enqueue";

/// Bytes of a part of a path, or of a word of a header, that may be a secret.
const HIDDEN_BYTES_MIN: usize = 8;

/// A receiver and its address.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) receiver: Receiver,
    pub(super) address: Address,
    /// Path and query of the request.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    /// `None` for plain HTTP.
    pub(super) trust: Option<Trust>,
    /// `None` for an Alertmanager.
    template: Option<Arc<(Template, Option<String>)>>,
}

impl Endpoint {
    /// All receivers of a configuration, with the files that it names.
    ///
    /// # Errors
    /// Names the receiver, the key and what it may be.
    pub fn of_config(config: &Config) -> Result<Vec<Self>, String> {
        let alertmanagers = config.alertmanager.0.iter().map(|one| {
            let named = |error| format!("alertmanager {:?}: {error}", one.name);
            Self::of_alertmanager(one).map_err(named)
        });

        let webhooks = config.webhook.iter().map(|one| {
            Self::of_webhook(one).map_err(|error| format!("webhook {:?}: {error}", one.name))
        });
        let all = alertmanagers.chain(webhooks).collect::<Result<Vec<Self>, String>>()?;
        if all.len() > RECEIVERS_MAX {
            return Err(format!("{} receivers, more than {RECEIVERS_MAX}", all.len()));
        }

        for (index, endpoint) in all.iter().enumerate() {
            let name = &endpoint.receiver.name;
            if all[..index].iter().any(|other| other.receiver.name == *name) {
                return Err(format!("receiver {name:?}: name is given twice; rename one receiver"));
            }
        }

        Ok(all)
    }

    fn of_alertmanager(one: &Alertmanager) -> Result<Self, String> {
        let resend_every = one.resend_every;
        if !(RESEND_EVERY_MIN..=RESEND_EVERY_MAX).contains(&resend_every) {
            return Err("resend_every: it must be 1s to 10m".to_owned());
        }
        let base = one.url.trim_end_matches('/');
        let url = parse("url", &format!("{base}/api/v2/alerts"))?;
        let kind = ReceiverKind::Alertmanager { resend_every };
        let receiver = Receiver { name: name(&one.name)?, kind, severity_min: one.severity_min };
        Self::new(receiver, &url, one.token_file.as_deref(), one.ca_file.as_deref())
    }

    fn of_webhook(one: &Webhook) -> Result<Self, String> {
        let is_pagerduty = one.template == "pagerduty";
        let url = match (&one.url, &one.url_file) {
            (Some(_), Some(_)) => return Err("url and url_file: set only one of them".to_owned()),
            (Some(url), None) => parse("url", url.reveal())?,
            (None, Some(path)) => parse("url_file", &secret("url_file", path)?)?,
            (None, None) if is_pagerduty => parse("url", PAGERDUTY)?,
            (None, None) => return Err("url is missing; set url or url_file".to_owned()),
        };

        let kind = ReceiverKind::Webhook { resolved: one.resolved, acknowledged: is_pagerduty };
        let receiver = Receiver { name: name(&one.name)?, kind, severity_min: one.severity_min };
        let mut endpoint =
            Self::new(receiver, &url, one.token_file.as_deref(), one.ca_file.as_deref())?;

        for (name, value) in &one.headers {
            let wrong = || format!("headers.{name}: it is not a valid header");
            let header: HeaderName = name.parse().map_err(|_| wrong())?;
            let mut value: HeaderValue = value.reveal().parse().map_err(|_| wrong())?;
            // Header maps are printed in errors and logs of
            // libraries, which leave out what is marked.
            value.set_sensitive(true);
            endpoint.headers.insert(header, value);
        }

        let routing_key = one.routing_key_file.as_deref();
        let routing_key = routing_key.map(|path| secret("routing_key_file", path)).transpose()?;
        if is_pagerduty && routing_key.is_none() {
            return Err("routing_key_file is missing; PagerDuty needs it".to_owned());
        }
        // Filled with an example now: a template with a
        // mistake would otherwise fail with the first alert.
        let sample = fields::fields(&fields::sample(), routing_key.as_deref());
        let template = Template::read(&template(&one.template)?, &sample)
            .map_err(|error| format!("template {}: {error}", one.template))?;
        endpoint.template = Some(Arc::new((template, routing_key)));
        Ok(endpoint)
    }

    fn new(
        receiver: Receiver,
        url: &Url,
        token_file: Option<&Path>,
        ca_file: Option<&Path>,
    ) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        if let Some(path) = token_file {
            let token = format!("Bearer {}", secret("token_file", path)?);
            let wrong = |_| "token_file: the token must be one line of ASCII".to_owned();
            let mut token: HeaderValue = token.parse().map_err(wrong)?;
            token.set_sensitive(true);
            headers.insert(AUTHORIZATION, token);
        }

        let address = Address::of_url(url).ok_or("url: it has no host")?;
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));

        Ok(Self {
            receiver,
            address,
            target: format!("{}{query}", url.path()),
            headers,
            trust: (url.scheme() == "https").then(|| trust("ca_file", ca_file)).transpose()?,
            template: None,
        })
    }

    /// A receiver's text without what is secret here: a server may repeat the path or a header of a
    /// request that it refuses.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        let headers = self.headers.values().filter_map(|value| value.to_str().ok());
        let words = headers.flat_map(str::split_whitespace);
        let key = self.template.as_ref().and_then(|template| template.1.as_deref());
        let secrets = words.chain(key).chain(self.target.split(['/', '?', '&', '=']));
        let mut text = text.to_owned();
        // Short words are left: hiding `v2` or `api` in an error would make it useless.
        for secret in secrets.filter(|secret| secret.len() >= HIDDEN_BYTES_MIN) {
            text = text.replace(secret, "..");
        }
        text
    }

    pub(super) fn body(&self, body: Body) -> Vec<u8> {
        match (body, &self.template) {
            (Body::Alerts(json), _) => json,
            (Body::Notification(notification), Some(template)) => {
                let (template, routing_key) = &**template;
                template.fill(&fields::fields(&notification, routing_key.as_deref())).into_bytes()
            }
            (Body::Notification(notification), None) => {
                serde_json::to_vec(&notification).unwrap_or_default()
            }
        }
    }
}

/// A receiver's name, checked as a rule's name is, since routes and labels use it.
fn name(name: &str) -> Result<Arc<str>, String> {
    RuleName::new(name).map(|name| name.as_str().into()).map_err(|error| format!("name: {error}"))
}

/// A URL may be a secret, so the error does not contain it.
fn parse(key: &str, text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|error| {
        format!("{key}: invalid URL ({error}); write http://host:port or https://host")
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{key}: it must start with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("{key}: it contains a user; set token_file instead"));
    }
    Ok(url)
}

fn template(named: &str) -> Result<String, String> {
    match TEMPLATES.iter().find(|(name, _)| *name == named) {
        Some((_, text)) => Ok((*text).to_owned()),
        None => read("template", Path::new(named), TEMPLATE_BYTES_MAX),
    }
}

fn secret(key: &str, path: &Path) -> Result<String, String> {
    let text = read(key, path, SECRET_BYTES_MAX)?.trim().to_owned();
    if text.is_empty() { Err(format!("{key}: {} is empty", path.display())) } else { Ok(text) }
}

fn read(key: &str, path: &Path, bytes_max: u64) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("{key}: cannot read {}: {error}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    let length = file.take(bytes_max + 1).read_to_string(&mut text).map_err(wrong)?;
    if length as u64 > bytes_max {
        return Err(format!("{key}: {} has more than {bytes_max} bytes", path.display()));
    }
    Ok(text)
}
