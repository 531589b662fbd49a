<?php
// The reader of PHP: php -S 127.0.0.1:PORT router.php. See node.js.
$at = explode('/', substr((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), 1));
if (end($at) === '') {
    array_pop($at);
}
$at = array_map('rawurldecode', $at);
$first = $at[0] ?? '';
$route = match (true) {
    $at === ['health'] => 'health',
    in_array($first, ['graphql', 'static', 'admin'], true) => $first,
    count($at) === 2 && $at[1] === 'open' => 'open',
    default => 'rest',
};
function texts(mixed $v): array
{
    $out = [];
    $v = (array) $v;
    array_walk_recursive($v, function ($one) use (&$out) { $out[] = $one; });
    return $out;
}
$texts = fn(string $name, array ...$from) => array_merge(...array_map(fn($f) => texts($f[$name] ?? []), $from));
$header = array_change_key_case(getallheaders())['x-api-key'] ?? null;
header('Content-Type: application/json');
echo json_encode([
    'route' => $route,
    'keys' => array_merge($header === null ? [] : [$header], $texts('api_key', $_GET, $_COOKIE)),
    'accounts' => $texts('account', $_GET, $_COOKIE),
], JSON_INVALID_UTF8_SUBSTITUTE);
