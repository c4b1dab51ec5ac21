//! Downloads: streamed, redirected by hand, and never with the key to a stranger.

use futures_util::StreamExt;
use hookledger::gemini::{Download, FileName};

use super::*;

fn file() -> FileName {
    FILE.parse().unwrap()
}

async fn all_bytes(download: Download) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let mut stream = download.bytes;
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}

#[tokio::test]
async fn a_download_streams_the_file_larger_than_any_body() {
    let bytes = vec![7_u8; 3 * 64 * 1024];
    let answer = ResponseTemplate::new(200).set_body_raw(bytes.clone(), "video/mp4");
    let server = answering(answer).await;
    let download = client(&settings(&server.uri()))
        .download(&file())
        .await
        .unwrap();
    assert_eq!(download.length, Some(3 * 64 * 1024));
    assert_eq!(download.media_type.as_deref(), Some("video/mp4"));
    assert_eq!(all_bytes(download).await.unwrap(), bytes);
    let request = only_request(&server).await;
    assert_eq!(request.url.path(), format!("/v1beta/{FILE}:download"));
    assert_eq!(request.url.query(), Some("alt=media"));
    assert_eq!(header(&request, "x-goog-api-key"), Some(KEY));
}

#[tokio::test]
async fn a_download_has_its_own_base_which_gets_the_key_but_not_the_gateways_header() {
    let gateway = answering(ResponseTemplate::new(500)).await;
    let files = answering(ResponseTemplate::new(200).set_body_string("x")).await;
    let mut settings = settings(&gateway.uri());
    settings.download_base_url = Some(format!("{}/download/", files.uri()).parse().unwrap());
    let download = client(&settings).download(&file()).await.unwrap();
    assert_eq!(all_bytes(download).await.unwrap(), b"x");
    let request = only_request(&files).await;
    assert_eq!(
        request.url.path(),
        format!("/download/v1beta/{FILE}:download")
    );
    assert_eq!(header(&request, "x-goog-api-key"), Some(KEY));
    assert_eq!(header(&request, "cf-aig-authorization"), None);
    assert!(gateway.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_download_follows_its_own_origin_three_times() {
    let server = MockServer::start().await;
    for (from, to) in [
        (format!("/v1beta/{FILE}:download"), "/hop/1"),
        ("/hop/1".to_owned(), "/hop/2"),
        ("/hop/2".to_owned(), "/hop/3"),
    ] {
        let redirect = ResponseTemplate::new(302).insert_header("location", to);
        Mock::given(path(from))
            .respond_with(redirect)
            .mount(&server)
            .await;
    }
    let end = ResponseTemplate::new(200).set_body_string("found");
    let end = Mock::given(path("/hop/3")).respond_with(end);
    let end = end.mount_as_scoped(&server).await;
    let client = client(&settings(&server.uri()));
    let download = client.download(&file()).await.unwrap();
    assert_eq!(all_bytes(download).await.unwrap(), b"found");
    drop(end);

    let once_more = ResponseTemplate::new(302).insert_header("location", "/hop/4");
    Mock::given(path("/hop/3"))
        .respond_with(once_more)
        .mount(&server)
        .await;
    let fault = client.download(&file()).await.unwrap_err();
    assert!(fault.to_string().contains("too many redirects"), "{fault}");
}

#[tokio::test]
async fn a_download_goes_to_no_host_that_is_not_allowed() {
    let elsewhere = answering(ResponseTemplate::new(200).set_body_string("stolen")).await;
    let other_port = format!("{}/x", elsewhere.uri());
    for target in [
        other_port.as_str(),
        "http://storage.googleapis.com/x",
        "https://evil.example/x",
        "https://googleapis.com.evil.example/x",
        "https://evilgoogleapis.com/x",
        "https://user:pass@storage.googleapis.com/x",
        "https://169.254.169.254/computeMetadata",
        "file:///etc/passwd",
        "http://[::1",
    ] {
        let redirect = ResponseTemplate::new(302).insert_header("location", target);
        let server = answering(redirect).await;
        let client = client(&settings(&server.uri()));
        let fault = client.download(&file()).await.unwrap_err();
        assert!(
            fault.to_string().contains("redirected to"),
            "{target}: {fault}"
        );
        only_request(&server).await;
    }
    assert!(elsewhere.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_refused_download_says_why() {
    for (status, body, label) in [
        (
            403,
            json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "m"}}),
            "forbidden",
        ),
        (
            404,
            json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "m"}}),
            "not_found",
        ),
        (404, json!("not yet"), "unavailable"),
        (204, json!(null), "unavailable"),
        (302, json!("without a location"), "unavailable"),
    ] {
        let server = answering(ResponseTemplate::new(status).set_body_json(&body)).await;
        let client = client(&settings(&server.uri()));
        let fault = client.download(&file()).await.unwrap_err();
        assert_eq!(fault.label(), label, "{status} {body}");
    }
}

#[tokio::test]
async fn a_download_that_falls_silent_or_is_cut_ends_in_a_fault() {
    const HALF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf";
    for (base, said) in [
        (raw(b"", Then::Hold).await, "no answer within 300ms"),
        (raw(HALF, Then::Hold).await, "no answer within 300ms"),
        (raw(HALF, Then::Close).await, "the exchange failed"),
    ] {
        let mut settings = settings(&base);
        settings.timeout = Duration::from_millis(300);
        let client = client(&settings);
        let whole = async { all_bytes(client.download(&file()).await?).await };
        let whole = tokio::time::timeout(PATIENCE, whole).await.unwrap();
        let fault = whole.unwrap_err();
        assert_eq!(fault.label(), "unavailable");
        assert!(fault.to_string().contains(said), "{fault}");
    }
}
