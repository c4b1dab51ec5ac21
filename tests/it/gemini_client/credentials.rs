//! Another key and other headers while the client lives.

use hookledger::domain::operation::OperationName;

use super::*;

#[tokio::test]
async fn what_is_sent_is_what_was_read_last() {
    let server = MockServer::start().await;
    Mock::given(wiremock::matchers::any())
        .respond_with(ResponseTemplate::new(200).set_body_string("{\"name\":\"batches/abc\"}"))
        .mount(&server)
        .await;
    let mut settings = settings(&server.uri());
    settings.extra_headers = BTreeMap::from([("x-gateway".to_owned(), Secret::new("first"))]);
    let client = HttpGemini::new(&settings, Arc::new(SystemClock::new())).unwrap();
    let name: OperationName = BATCH.parse().unwrap();
    client.operation(&name).await.unwrap();
    settings.api_key = Some(Secret::new("another-key"));
    settings.extra_headers = BTreeMap::from([("x-gateway".to_owned(), Secret::new("second"))]);
    client.renew(&settings).unwrap();
    client.operation(&name).await.unwrap();
    settings.api_key = Some(Secret::new("bad\nkey"));
    assert!(client.renew(&settings).is_err());
    client.operation(&name).await.unwrap();
    let sent = server.received_requests().await.unwrap();
    let sent: Vec<_> = sent
        .iter()
        .map(|r| (r.headers["x-goog-api-key"].clone(), r.headers["x-gateway"].clone()))
        .collect();
    assert_eq!(sent[0].1, "first");
    assert_eq!(sent[1..], [("another-key".parse().unwrap(), "second".parse().unwrap()); 2]);
    assert_ne!(sent[0].0, sent[1].0);
}
