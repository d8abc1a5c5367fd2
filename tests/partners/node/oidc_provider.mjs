// An OpenID provider by panva/oidc-provider, which signs users in by its development pages and sends back-channel
// logouts. Arguments: port, redirect URI of the client, its back-channel logout URI.
import Provider from "oidc-provider";

const [port, redirect, logout] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{
    client_id: "shop", client_secret: "a-secret-of-the-tests-only", redirect_uris: [redirect],
    backchannel_logout_uri: logout, backchannel_logout_session_required: true,
    post_logout_redirect_uris: [redirect], application_type: "web",
  }],
  cookies: { keys: ["a-key-of-the-tests-only"] },
  features: { devInteractions: { enabled: true }, backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  pkce: { required: () => false },
  fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined }),
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});
provider.on("backchannel.success", () => console.log("sent"));
provider.on("backchannel.error", (_ctx, error) => console.log(`failed: ${error.message}`));
provider.listen(Number(port), "127.0.0.1", () => console.log(`listening ${issuer}`));
