"""The readers of Python: python python.py READER PORT. See node.js."""
import json
import sys

BELOW = ["graphql", "static", "admin"]


def reading(route, headers, query, cookies):
    """query and cookies take a name and return a list of texts."""
    return {
        "route": route,
        "keys": headers + query("api_key") + cookies("api_key"),
        "accounts": query("account") + cookies("account"),
    }


def flask(port):
    from flask import Flask, request

    app = Flask("readers", static_folder=None)

    def say(route):
        def view(**_):
            header = request.headers.get("X-Api-Key")
            return reading(route, [header] if header else [], request.args.getlist, request.cookies.getlist)

        view.__name__ = route
        return view

    routes = {route: say(route) for route in ["health", *BELOW, "open", "rest"]}
    for one in ["health", *BELOW]:
        app.add_url_rule("/" + one, view_func=routes[one])
        app.add_url_rule("/" + one + "/", view_func=routes[one])
    for one in BELOW:
        app.add_url_rule("/" + one + "/<path:x>", view_func=routes[one])
    app.add_url_rule("/<x>/open", view_func=routes["open"])
    app.add_url_rule("/<x>/open/", view_func=routes["open"])
    app.add_url_rule("/", view_func=routes["rest"])
    app.add_url_rule("/<path:x>", view_func=routes["rest"])
    app.run("127.0.0.1", port)


def werkzeug(port):
    """WSGI without a router, as many small programs are."""
    from werkzeug import Request, Response
    from werkzeug.serving import run_simple

    @Request.application
    def app(request):
        header = request.headers.get("X-Api-Key")
        read = reading(route_of(request.path), [header] if header else [], request.args.getlist, request.cookies.getlist)
        return Response(json.dumps(read), mimetype="application/json")

    run_simple("127.0.0.1", port, app)


def route_of(path):
    at = path.split("/")[1:]
    if at and at[-1] == "":
        at.pop()
    if at == ["health"]:
        return "health"
    if at and at[0] in BELOW:
        return at[0]
    return "open" if len(at) == 2 and at[1] == "open" else "rest"


def starlette(port):
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def say(route):
        async def view(request):
            header = request.headers.get("x-api-key")
            query = request.query_params.getlist
            return JSONResponse(reading(route, [header] if header else [], query, lambda name: [request.cookies[name]] if name in request.cookies else []))

        return view

    routes = [Route("/health", say("health")), Route("/health/", say("health"))]
    for one in BELOW:
        routes += [Route("/" + one, say(one)), Route("/" + one + "/{x:path}", say(one))]
    routes += [Route("/{x}/open", say("open")), Route("/{x}/open/", say("open")), Route("/{x:path}", say("rest"))]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="error")


def django(port):
    from wsgiref.simple_server import make_server

    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import JsonResponse
    from django.urls import path, re_path

    def say(route):
        def view(request, **_):
            header = request.headers.get("X-Api-Key")
            cookies = request.COOKIES
            return JsonResponse(reading(route, [header] if header else [], request.GET.getlist, lambda name: [cookies[name]] if name in cookies else []))

        return view

    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none", MIDDLEWARE=["django.middleware.common.CommonMiddleware"])
    patterns = [path("health", say("health")), path("health/", say("health"))]
    for one in BELOW:
        patterns += [path(one, say(one)), path(one + "/", say(one)), path(one + "/<path:x>", say(one))]
    patterns += [path("<str:x>/open", say("open")), path("<str:x>/open/", say("open")), re_path("^.*$", say("rest"))]
    globals()["urlpatterns"] = patterns
    django.setup()
    make_server("127.0.0.1", port, get_wsgi_application()).serve_forever()


if __name__ == "__main__":
    {"flask": flask, "werkzeug": werkzeug, "starlette": starlette, "django": django}[sys.argv[1]](int(sys.argv[2]))
